//! The built-in `web_search` against a server on loopback that answers like the search engine.

use serde_json::json;

use crate::http::server::{Server, ok, redirect, with};
use crate::web::Web;

const RESULTS: &str = include_str!("../plugins/search/src/pages/results.html");
const NOTHING: &str = include_str!("../plugins/search/src/pages/nothing.html");
const WALL: &str = include_str!("../plugins/search/src/pages/wall.html");

/// haft that searches at `path` of a server.
fn searching_at(server: &Server, path: &str) -> Web {
    Web::new(&format!("search_url = \"{}{path}\"", server.url()))
}

/// A search engine whose answer depends on the query.
fn engine() -> Server {
    Server::answering(|head| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let query = target.split("q=").nth(1).unwrap_or_default();
        match query.split('&').next().unwrap_or_default() {
            "nothing" => ok(NOTHING),
            "wall" => with("202 Accepted", "", WALL),
            "changed" => ok("<html><body><article><a href='https://x.test/'>x</a></article>"),
            "broken" => with("500 Internal Server Error", "", "oops"),
            "moved" => redirect("/elsewhere?q=found"),
            "away" => redirect("http://169.254.169.254/"),
            _ => ok(RESULTS),
        }
    })
}

fn says(web: &Web, query: &str) -> String {
    web.says("web_search", &json!({ "query": query }))
}

fn fails(web: &Web, query: &str) -> String {
    web.fails("web_search", &json!({ "query": query }))
}

/// WS01, WS02, WS04: the engine receives a correct request, and the model receives the results without
/// advertisements.
#[test]
fn results_of_another_endpoint() {
    let engine = engine();
    let found = says(&searching_at(&engine, "/html/"), "a&b c");
    assert!(
        found.starts_with(
            "1. Introduction - Rust and WebAssembly\n   https://rustwasm.github.io/docs/book/\n   This small book"
        ),
        "{found}"
    );
    assert!(found.contains("\n\n2. ") && found.contains("\n\n3. ") && !found.contains("\n4. "), "{found}");
    assert!(!found.contains("duckduckgo.com") && !found.contains("Buy Rust"), "{found}");
    let [request] = engine.seen().try_into().unwrap();
    assert!(request.starts_with("GET /html/?q=a%26b+c HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nuser-agent: Mozilla/5.0 (compatible; haft/"), "{request}");
    let web = searching_at(&engine, "/s?kl=de-de");
    web.says("web_search", &json!({ "query": "x", "recency": "month" }));
    assert!(engine.seen()[1].starts_with("GET /s?kl=de-de&q=x&df=m HTTP/1.1\r\n"), "{:?}", engine.seen());
}

/// WS03: haft distinguishes the reasons for missing results: no matches, a check for robots, an unknown layout and an
/// HTTP error.
#[test]
fn nothing_a_wall_and_another_layout() {
    let engine = engine();
    let web = searching_at(&engine, "/html/");
    assert_eq!(says(&web, "nothing"), "No results found.");
    assert!(fails(&web, "wall").contains("takes haft for a robot and asks for proof"));
    assert!(fails(&web, "changed").contains("has another layout than haft knows"));
    assert!(fails(&web, "broken").contains("it answered with HTTP 500"));
}

/// WS04: a search reaches only the host of `search_url`.
#[test]
fn a_search_goes_to_the_endpoint_and_nowhere_else() {
    let (engine, other) = (engine(), engine());
    let web = searching_at(&engine, "/html/");
    assert!(says(&web, "moved").starts_with("1. Introduction"));
    let refused = fails(&web, "away");
    let expected = format!(
        "Tool error: cannot search at `{}/html/`: redirected to `http://169.254.169.254/`: access was \
         denied\nhint: to allow the request, set `search_url` in `[builtins]` to a page on that host",
        engine.url()
    );
    assert_eq!(refused, expected);
    // Hosts that are allowed for other tools are not allowed for a search.
    let allow = format!("host={}", other.url());
    let web =
        Web::new(&format!("search_url = \"{}/html/\"\nfetch_allow = [\"{}\"]", engine.url(), other.url()));
    assert!(says(&web.with(&["--allow", &allow]), "moved").starts_with("1. Introduction"));
    assert!(other.seen().is_empty());
}

/// WS01: haft refuses an empty or too long query before it sends a request.
#[test]
fn a_query_must_say_something() {
    let engine = engine();
    let web = searching_at(&engine, "/html/");
    assert_eq!(fails(&web, "  "), "invalid arguments: `query` is empty; say what to search for");
    assert!(fails(&web, &"x".repeat(501)).contains("`query` may have 500 characters"));
    assert!(engine.seen().is_empty());
}

/// RG04: `search = false` removes the tool.
#[test]
fn search_can_be_switched_off() {
    let off = Web::new("search = false").haft(&["call", "web_search", r#"{"query": "x"}"#]);
    assert!(off.contains("Unknown tool: web_search"), "{off}");
}
