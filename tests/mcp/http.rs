//! Servers over streamable HTTP: each form of answer, and each form of failure.

use haft::mcp::pins::ToolPins;
use serde_json::json;

use super::http_fake::{HttpFake, Like};
use super::*;
use crate::common::wait::eventually;

fn of_url(url: String, headers: &[(&str, &str)]) -> Fixture {
    Fixture::of(Endpoint::Http { url, headers: values(headers), account: None }, HANG, |host| host)
}

async fn with(like: Like) -> (HttpFake, Fixture) {
    let fake = HttpFake::start(like).await;
    let fixture = of_url(fake.url(), &[("X-Own", "value")]);
    (fake, fixture)
}

/// MC01: haft lists and calls servers over HTTP, in both eras, with JSON and with event streams.
#[tokio::test]
async fn servers_over_http_are_listed_and_called() {
    for like in [Like::Json, Like::Events, Like::Stateless] {
        let (fake, fixture) = with(like).await;
        assert_eq!(fixture.list().await.unwrap().tools[0].name, "echo", "{like:?}");
        for number in 0..3 {
            let text = fixture.text("echo", json!({ "number": number })).await;
            assert_eq!(text, format!("{{\"number\":{number}}}"), "{like:?}");
        }
        assert_eq!(
            (fake.count("tools/call"), fake.count("initialize")),
            (3, usize::from(like != Like::Stateless))
        );
        let has_own = |(_, headers, _): &(_, std::collections::BTreeMap<String, String>, _)| {
            headers.get("x-own").map(String::as_str) == Some("value")
        };
        assert!(fake.requests().iter().all(has_own));
        fixture.server.close().await;
        let ends = fake.requests().iter().filter(|(first, ..)| first.starts_with("DELETE")).count();
        assert_eq!(ends, usize::from(like != Like::Stateless), "{like:?}");
    }
}

/// CL04: a refused request's error contains the challenge and a hint to set credentials.
#[tokio::test]
async fn a_server_may_want_a_token() {
    let (fake, fixture) = with(Like::Guarded).await;
    let error = fixture.error("echo", json!({})).await;
    assert!(
        error.contains("refuses the request: 401, Bearer realm=\"x\"\nhint: set the credentials"),
        "{error}"
    );
    let known = of_url(fake.url(), &[("Authorization", "Bearer right")]);
    assert_eq!(known.text("echo", json!({})).await, "{}");
}

/// CL04: haft does not follow redirects to another server, because the headers contain credentials.
#[tokio::test]
async fn redirects_are_not_followed() {
    for status in [301, 302, 307, 308] {
        let (fake, fixture) = with(Like::Redirecting(status)).await;
        let error = fixture.error("echo", json!({})).await;
        let told =
            format!("redirects to `http://127.0.0.1:1/else` ({status}), and haft follows no redirects here");
        assert!(error.contains(&told), "{error}");
        assert!(!error.contains("key=1") && fake.requests().len() <= 2, "{error}");
    }
}

/// MC09: a stream that breaks off fails its call at once, and haft does not repeat the call.
#[tokio::test]
async fn a_broken_stream_fails_its_call() {
    let (fake, fixture) = with(Like::Cut).await;
    fixture.list().await.unwrap();
    let error = fixture.error("echo", json!({})).await;
    assert!(!error.contains("did not answer"), "{error}");
    assert_eq!(fake.count("tools/call"), 1, "{error}");
}

/// MC09: haft resumes a stream that can be resumed, and does not repeat the call.
#[tokio::test]
async fn a_broken_stream_is_taken_up_again() {
    let (fake, fixture) = with(Like::Resumable).await;
    assert_eq!(fixture.text("echo", json!({})).await, "resumed");
    assert_eq!(fake.count("tools/call"), 1);
}

/// MC09: if a server has forgotten the session, haft opens a new one and repeats the refused call.
#[tokio::test]
async fn a_forgotten_session_is_begun_anew() {
    let (fake, fixture) = with(Like::Forgetful).await;
    for _ in 0..3 {
        assert_eq!(fixture.text("echo", json!({})).await, "before it was forgotten");
    }
    assert_eq!(fake.count("initialize"), 3);
}

/// MC08: the error says if no server listens, if the answer is not MCP, and if a header cannot be sent.
#[tokio::test]
async fn what_is_no_server_is_told() {
    let nobody = of_url("http://127.0.0.1:1/mcp".into(), &[]);
    let error = nobody.error("echo", json!({})).await;
    assert!(error.contains("cannot be reached: ") && error.contains("refused"), "{error}");
    let (_fake, page) = with(Like::Page).await;
    let error = page.error("echo", json!({})).await;
    assert!(
        error.contains("does not follow the MCP specification:") && error.contains("text/html"),
        "{error}"
    );
    let bad = of_url("http://127.0.0.1:1/mcp".into(), &[("X", "a\nb")]);
    assert!(bad.error("echo", json!({})).await.contains("header `X` cannot be sent"));
}

/// MC08: (B10) haft follows a redirect within a server if it repeats the request; for another redirect the error has
/// the address.
#[tokio::test]
async fn redirects_within_a_server_are_followed_or_told() {
    for (status, is_followed) in [(307, true), (308, true), (301, false), (302, false), (303, false)] {
        let (fake, fixture) = with(Like::Moved(status)).await;
        if is_followed {
            assert_eq!(fixture.text("echo", json!({ "a": 1 })).await, "{\"a\":1}", "{status}");
            assert_eq!(fake.count("tools/call"), 2, "{status}: at both addresses");
        } else {
            let error = fixture.error("echo", json!({})).await;
            assert!(error.contains("/v1/mcp` (") && !error.contains("key=1"), "{status}: {error}");
        }
    }
}

const JSON: &str = "content-type: application/json\r\n";
const HTML: &str = "content-type: text/html\r\n";
/// Status, head and body of the answer to a call, and a part of haft's error.
const FAILURES: &[(&str, &str, &str, &str)] = &[
    (
        "400 Bad Request",
        JSON,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not now"}}"#,
        "not now (-32600)",
    ),
    (
        "400 Bad Request",
        JSON,
        r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"not now"}}"#,
        "not now",
    ),
    (
        "406 Not Acceptable",
        JSON,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"not now"}}"#,
        "not now",
    ),
    (
        "500 Internal Server Error",
        JSON,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"broken"}}"#,
        "broken",
    ),
    ("200 OK", JSON, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"inner"}}"#, "inner"),
    (
        "200 OK",
        JSON,
        r#"[{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"in a batch"}}]"#,
        "in a batch",
    ),
    ("200 OK", JSON, r#"{"ok":true}"#, "its answer is not a JSON-RPC 2.0 message"),
    ("200 OK", JSON, r#"{"jsonrpc":"2.0","id":ID,"result":"#, "ends in the middle of a value"),
    ("200 OK", JSON, "", "sent no answer"),
    ("200 OK", HTML, "<h1>Welcome</h1>", "it answered with text/html instead of JSON: Welcome"),
    ("202 Accepted", "", "", "it accepted the request (202 Accepted) but sent no answer"),
    (
        "502 Bad Gateway",
        HTML,
        "<html><h1>Bad  gateway</h1> nginx</html>",
        "502 Bad Gateway: Bad gateway nginx",
    ),
    ("503 Service Unavailable", "", "", "503 Service Unavailable"),
    ("429 Too Many Requests", JSON, r#"{"detail":"slower"}"#, "429 Too Many Requests: slower"),
    ("404 Not Found", "content-type: text/plain\r\n", "gone", "its session has ended"),
    ("403 Forbidden", JSON, r#"{"error":"no scope"}"#, "refuses the request: 403, no scope"),
    (
        "200 OK",
        "content-type: text/event-stream\r\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"streamed\"}}\n\n",
        "streamed",
    ),
];

/// MC08: (B08) every failure of a server is at once the error of its request, in the server's words.
#[tokio::test]
async fn every_failure_is_the_answer_to_its_request() {
    for (status, head, body, told) in FAILURES {
        let (status, head, body) = (*status, *head, *body);
        let (fake, fixture) = with(Like::Answering(status, head, body)).await;
        fixture.list().await.unwrap();
        let error = fixture.error("echo", json!({})).await;
        assert!(error.contains(told), "{status} {body}: {error}");
        assert!(!error.contains("did not answer `"), "{status} {body}: {error}");
        assert!(fake.count("tools/call") <= 2, "{status} {body}");
    }
}

/// MC08: (B09) haft ignores events that are not messages.
#[tokio::test]
async fn other_events_of_a_stream_are_passed_over() {
    for events in [
        "event: ping\ndata: ping\n\n",
        "event: ping\ndata: {}\n\n",
        "event: keepalive\ndata:\n\n",
        "event: ping\ndata: 2026-01-01T00:00:00Z\n\n",
        "data: {\"type\":\"heartbeat\"}\n\n",
        "data: [1, 2]\n\nid: 7\n\n: a comment\n\n",
        "event: other\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"cut\n\n",
    ] {
        let (_fake, fixture) = with(Like::After(events)).await;
        assert_eq!(fixture.text("echo", json!({})).await, "{}", "{events}");
    }
}

/// MC09: (M2) haft opens a new session if the server does not know the session any more, in any of several wordings,
/// and repeats the call.
#[tokio::test]
async fn a_lost_session_is_begun_anew_however_it_is_told() {
    for (status, words) in [
        ("404 Not Found", "Session not found"),
        ("400 Bad Request", "Bad Request: No valid session ID provided"),
        ("400 Bad Request", "Bad Request: Server not initialized"),
        ("410 Gone", "the session has expired"),
    ] {
        let (fake, fixture) = with(Like::Losing(status, words)).await;
        for _ in 0..3 {
            assert_eq!(fixture.text("echo", json!({})).await, "before it was forgotten", "{status} {words}");
        }
        assert_eq!(fake.count("initialize"), 3, "{status} {words}");
    }
}

/// MC09: before haft repeats a call in a new session, it lists the tools and compares them with the agreed ones: a changed
/// tool is not called, and the list is not the old one.
#[tokio::test]
async fn a_tool_that_has_changed_with_the_session_is_not_called() {
    let (fake, fixture) = with(Like::Redeployed).await;
    let agreed = fixture.list().await.unwrap();
    fixture.server.hold_to(Some(Arc::new(ToolPins::of(&agreed.sent))));
    assert_eq!(fixture.text("echo", json!({})).await, "before it was forgotten");
    let error = fixture.error("echo", json!({})).await;
    assert!(error.contains("tool `echo` has changed: description"), "{error}");
    let counts = ["initialize", "tools/list", "tools/call"].map(|method| fake.count(method));
    assert_eq!(counts, [2, 2, 2], "the second call is refused with its session");
    assert_eq!(fixture.list().await.unwrap().tools.len(), 0);
}

/// MC04: haft subscribes again to the changes of a stateless server after the subscription ends, and asks for the list, which
/// may have changed meanwhile.
#[tokio::test]
async fn an_ended_subscription_is_made_again() {
    let (fake, fixture) = with(Like::Subscribed).await;
    fixture.list().await.unwrap();
    let is_asked = |method| fake.count(method) >= 2;
    eventually("it is made again", || is_asked("subscriptions/listen")).await;
    eventually("the list is asked for again", || is_asked("tools/list")).await;
}

/// MC04: haft opens the stream of a session again after a failure, and asks for the list after a gap, or if the server no longer
/// knows the session.
#[tokio::test]
async fn the_stream_of_a_session_is_opened_again() {
    let failing: &[&str] = &["503 Service Unavailable", "200 OK"];
    for statuses in [failing, &["200 OK", "404 Not Found"]] {
        let (fake, fixture) = with(Like::Streaming(statuses)).await;
        fixture.list().await.unwrap();
        eventually("the list is asked for again", || fake.count("tools/list") >= 2).await;
    }
}

/// MC08: the error names the old transport HTTP+SSE if a server supports nothing else.
#[tokio::test]
async fn the_transport_of_2024_is_named() {
    let (_fake, fixture) = with(Like::Old).await;
    let error = fixture.error("echo", json!({})).await;
    assert!(
        error.contains("uses the transport HTTP+SSE of 2024-11-05, which haft does not support"),
        "{error}"
    );
    assert!(error.contains("hint: most of these servers also have a streamable HTTP URL"), "{error}");
}
