use haft_plugin::testing;
use serde_json::json;

use super::*;

const ENGINE: &str = "https://html.duckduckgo.com/html/";

fn page(status: u16, html: &str) -> Result<String, Error> {
    let url = http::parse_url(ENGINE).unwrap();
    answer(ENGINE, Response::for_tests(url, status, &[("content-type", "text/html")], html))
}

fn refused(status: u16, html: &str) -> String {
    page(status, html).unwrap_err().message().to_owned()
}

fn url_of(query: &str, endpoint: &str) -> Result<String, Error> {
    WebSearch { query: query.into(), recency: None }.url(endpoint).map(String::from)
}

/// WS01: the query as a form sends it.
#[test]
fn the_query_is_encoded() {
    assert_eq!(url_of("a&b c", ENGINE).unwrap(), "https://html.duckduckgo.com/html/?q=a%26b+c");
    assert_eq!(
        url_of(" é+\"x\"#/? ", ENGINE).unwrap(),
        "https://html.duckduckgo.com/html/?q=%C3%A9%2B%22x%22%23%2F%3F"
    );
    let recent = WebSearch { query: "x".into(), recency: Some(Recency::Week) };
    assert_eq!(recent.url(ENGINE).unwrap().as_str(), "https://html.duckduckgo.com/html/?q=x&df=w");
}

/// WS04: another endpoint, with what is in its own query kept.
#[test]
fn another_endpoint() {
    assert_eq!(
        url_of("x", "http://127.0.0.1:8080/s?kl=de-de").unwrap(),
        "http://127.0.0.1:8080/s?kl=de-de&q=x"
    );
    let error = url_of("x", "ftp://x/").unwrap_err();
    assert_eq!(
        error.message(),
        "the endpoint of the search is wrong: the scheme `ftp` is not supported; only `http` and `https` are"
    );
    let error = testing::call::<WebSearch>(&json!({ "query": "x" }), &Context::default()).unwrap_err();
    assert_eq!(error.message(), "nothing says where to search: the variable `SEARCH_URL` is not set");
}

/// WS01.
#[test]
fn a_query_is_neither_empty_nor_endless() {
    let empty = Error::invalid("`query` is empty; say what to search for");
    assert_eq!(url_of(" \n", ENGINE), Err(empty));
    assert_eq!(url_of(&"ä".repeat(501), ENGINE), Err(Error::invalid("`query` may have 500 characters")));
    assert!(url_of(&"ä".repeat(500), ENGINE).is_ok());
}

/// WS01, WS02: three lines a result; real URLs, no advertisements, entities decoded once.
#[test]
fn results_are_what_a_person_would_see() {
    let expected = "\
1. Introduction - Rust and WebAssembly
   https://rustwasm.github.io/docs/book/
   This small book describes how to use Rust and WebAssembly together.

2. Vec&lt;T&gt; & \"generics\" — café <b>
   https://example.org/search?q=a%26b&lang=en#top
   Uses &amp; in HTML.

3. A direct link
   https://plain.example/a%20b?x=1&y=2";
    assert_eq!(page(200, include_str!("pages/results.html")).unwrap(), expected);
}

/// WS02.
#[test]
fn the_other_layout() {
    let expected = "\
1. Rust Programming Language
   https://www.rust-lang.org/
   A language empowering everyone.";
    assert_eq!(page(200, include_str!("pages/lite.html")).unwrap(), expected);
}

/// WS01: at most eight.
#[test]
fn at_most_eight_results() {
    let one = |number: usize| {
        format!(
            "<div class=result><a class=result__a href='//duckduckgo.com/l/?uddg=https%3A%2F%2Fx.test%2F{number}'>t</a></div>"
        )
    };
    let html: String = (0..20).map(one).collect();
    let list = page(200, &html).unwrap();
    assert!(list.ends_with("8. t\n   https://x.test/7"), "{list}");
}

/// WS03: three reasons for no results, three messages.
#[test]
fn nothing_a_wall_and_another_layout() {
    assert_eq!(page(200, include_str!("pages/nothing.html")).unwrap(), "No results found.");
    let wall = "the search at `https://html.duckduckgo.com/html/` takes haft for a robot and asks for proof; \
                try again later, or set `search_url` in `[builtins]` to another endpoint";
    assert_eq!(refused(200, include_str!("pages/wall.html")), wall);
    assert_eq!(refused(202, include_str!("pages/wall.html")), wall);
    assert_eq!(refused(202, "<p>wait"), wall);
    for only in [
        "<form id=challenge-form>",
        "<script src='//duckduckgo.com/anomaly.js?x'></script>",
        "<div class='x anomaly-modal'>",
    ] {
        assert_eq!(refused(200, only), wall, "{only}");
    }
    let other =
        refused(200, "<article data-testid=result><h2><a href='https://x.test/'>x</a></h2></article>");
    assert!(
        other.starts_with("the page of results at `https://html.duckduckgo.com/html/` has another layout"),
        "{other}"
    );
    assert_eq!(
        refused(503, "busy"),
        "cannot search at `https://html.duckduckgo.com/html/`: it answered with HTTP 503; \
         try again later, or set `search_url` in `[builtins]` to another endpoint"
    );
}

/// WS03.
#[test]
fn only_advertisements_are_no_results() {
    let html = "<div class='result result--ad'><a class=result__a href='https://x.test/'>x</a></div>";
    assert_eq!(page(200, html).unwrap(), "No results found.");
}

#[test]
fn links_to_nothing_are_no_results() {
    for href in [
        "javascript:x()",
        "//duckduckgo.com/l/?uddg=javascript%3Ax()",
        "//duckduckgo.com/l/?uddg=",
        "http://[",
    ] {
        assert_eq!(
            page(200, &format!("<a class=result__a href='{href}'>x</a>")).unwrap(),
            "No results found.",
            "{href}"
        );
    }
    assert_eq!(page(200, "<a class=result__a href='https://x.test/'> </a>").unwrap(), "No results found.");
}
