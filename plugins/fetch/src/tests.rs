use haft_plugin::testing;
use serde_json::json;

use super::*;

const PAGE: &str = "https://example.com/a";

fn tool(arguments: serde_json::Value) -> FetchUrl {
    serde_json::from_value(arguments).unwrap()
}

fn response(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Response {
    let url = http::parse_url(PAGE).unwrap();
    Response::for_tests(url, status, &[("content-type", content_type)], body)
}

fn shown(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> String {
    tool(json!({ "url": PAGE })).answer(response(status, content_type, body)).unwrap()
}

#[test]
fn the_schema_is_what_a_model_needs() {
    let definition = testing::definition::<FetchUrl>();
    let properties = &definition.parameters["properties"];
    assert_eq!(definition.parameters["required"], json!(["url"]));
    assert_eq!(properties["max_chars"]["minimum"], 1);
    assert_eq!(properties["max_chars"]["maximum"], MAX_CHARS);
    assert_eq!(properties["max_chars"]["default"], DEFAULT_CHARS);
    assert!(definition.hints.read_only && definition.hints.open_world);
}

/// FU01: text as it is, JSON as it is, the status of whatever it is.
#[test]
fn status_and_type_come_first() {
    assert_eq!(shown(200, "text/plain", "a  b\n"), "HTTP 200 OK, text/plain\n\na  b\n");
    let json = "{\"a\": [1,\n2]}";
    assert_eq!(shown(200, "application/json", json), format!("HTTP 200 OK, application/json\n\n{json}"));
    assert_eq!(
        shown(404, "text/html; charset=utf-8", "<h1>Not here</h1>"),
        "HTTP 404 Not Found, text/html; charset=utf-8\n\n# Not here"
    );
    assert_eq!(shown(599, "text/plain", "odd"), "HTTP 599, text/plain\n\nodd");
    assert_eq!(shown(204, "text/plain", ""), "HTTP 204 No Content, text/plain\n\n(no text)");
}

/// FU01: pages become readable, and stay as they are on demand.
#[test]
fn html_becomes_markdown_unless_raw() {
    let html = "<title>T &amp; U</title><p>Hello <b>world</b>";
    assert_eq!(shown(200, "text/html", html), "HTTP 200 OK, text/html\nTitle: T & U\n\nHello **world**");
    let raw = tool(json!({ "url": PAGE, "raw": true })).answer(response(200, "text/html", html)).unwrap();
    assert_eq!(raw, format!("HTTP 200 OK, text/html\n\n{html}"));
}

/// FU01: 8000 characters, not bytes, and none of them cut.
#[test]
fn shows_8000_characters() {
    let text = shown(200, "text/plain; charset=utf-8", "ä".repeat(9000));
    let (page, notice) = text.split_once("\n...[truncated]").unwrap();
    assert_eq!(page.chars().filter(|c| *c == 'ä').count(), 8000);
    assert_eq!(notice, " (9000 total chars, showing first 8000; to read on: offset 8000)");
    let rest = tool(json!({ "url": PAGE, "offset": 8000 }));
    let rest = rest.answer(response(200, "text/plain", "ä".repeat(9000))).unwrap();
    assert_eq!(rest, format!("HTTP 200 OK, text/plain\n\n{}", "ä".repeat(1000)));
}

#[test]
fn what_is_no_text_is_told_by_type_and_size() {
    let refused =
        |response: Response| tool(json!({ "url": PAGE })).answer(response).unwrap_err().message().to_owned();
    assert_eq!(
        refused(response(200, "image/png", "\u{89}PNG")),
        "`https://example.com/a` is no text: HTTP 200 OK, image/png, 5 bytes"
    );
    let url = http::parse_url(PAGE).unwrap();
    let headers = [("content-type", "application/pdf"), ("content-length", "123456789")];
    assert_eq!(
        refused(Response::for_tests(url.clone(), 200, &headers, "x")),
        "`https://example.com/a` is no text: HTTP 200 OK, application/pdf, 123456789 bytes"
    );
    assert_eq!(
        refused(Response::for_tests(url, 200, &[], vec![0; MAX_BODY + 1])),
        "`https://example.com/a` is no text: HTTP 200 OK, of unknown type, more than 4194304 bytes"
    );
}

/// FU04: a body has a bound, and the reader is told.
#[test]
fn a_large_body_is_cut() {
    let text = shown(200, "text/plain", vec![b'x'; MAX_BODY + 1]);
    assert!(text.ends_with(
        "(4194304 total chars, showing first 8000; to read on: offset 8000)\n\
         (only the first 4194304 bytes of the body were read)"
    ));
    let packed = http::parse_url(PAGE).unwrap();
    let packed = Response::for_tests(packed, 200, &[("content-encoding", "br")], "x");
    assert_eq!(
        tool(json!({ "url": " https://example.com/a " })).answer(packed).unwrap_err().message(),
        "cannot fetch `https://example.com/a`: the answer is packed as `br`, which nobody asked for"
    );
}

/// FU02: what is no URL to fetch is an error of the arguments.
#[test]
fn only_http_urls() {
    for url in ["file:///etc/passwd", "example.com", "http://me:pw@example.com/", "https://", ""] {
        let error = testing::call::<FetchUrl>(&json!({ "url": url }), &Context::default()).unwrap_err();
        assert!(matches!(error, Error::InvalidArguments(_)), "{url}: {error:?}");
    }
}
