//! Servers over streamable HTTP: one way of answering after the other, and every way of failing.

use serde_json::json;

use super::http_fake::{HttpFake, Like};
use super::*;

fn of_url(url: String, headers: &[(&str, &str)]) -> Fixture {
    Fixture::of(Endpoint::Http { url, headers: values(headers) }, HANG, |host| host)
}

async fn with(like: Like) -> (HttpFake, Fixture) {
    let fake = HttpFake::start(like).await;
    let fixture = of_url(fake.url(), &[("X-Own", "value")]);
    (fake, fixture)
}

/// MC01: the same conversation over HTTP, in both eras, with plain answers and with streams.
#[tokio::test]
async fn mc01_servers_over_http_are_listed_and_called() {
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

/// Who may not is told so, and how to say who they are.
#[tokio::test]
async fn cl04_a_server_may_want_a_token() {
    let (fake, fixture) = with(Like::Guarded).await;
    let error = fixture.error("echo", json!({})).await;
    assert!(error.contains("refuses whoever asks: 401, Bearer realm=\"x\"\nhint: say who asks"), "{error}");
    let known = of_url(fake.url(), &[("Authorization", "Bearer right")]);
    assert_eq!(known.text("echo", json!({})).await, "{}");
}

/// The headers, which say who asks, go nowhere else.
#[tokio::test]
async fn cl04_redirects_are_not_followed() {
    for status in [301, 302, 307, 308] {
        let (fake, fixture) = with(Like::Redirecting(status)).await;
        let error = fixture.error("echo", json!({})).await;
        assert!(error.contains("redirects to `http://127.0.0.1:1`, which haft does not follow"), "{error}");
        assert!(!error.contains("key=1") && fake.requests().len() <= 2, "{error}");
    }
}

/// MC09: a stream that breaks off fails its call at once, and the call is not made again.
#[tokio::test]
async fn mc09_a_broken_stream_fails_its_call() {
    let (fake, fixture) = with(Like::Cut).await;
    fixture.list().await.unwrap();
    let error = fixture.error("echo", json!({})).await;
    assert!(!error.contains("did not answer"), "{error}");
    assert_eq!(fake.count("tools/call"), 1, "{error}");
}

/// A stream that can be taken up again is, and the call is not made again.
#[tokio::test]
async fn mc09_a_broken_stream_is_taken_up_again() {
    let (fake, fixture) = with(Like::Resumable).await;
    assert_eq!(fixture.text("echo", json!({})).await, "resumed");
    assert_eq!(fake.count("tools/call"), 1);
}

/// A server that has forgotten the session is given a new one: it has not done what it refused.
#[tokio::test]
async fn mc09_a_forgotten_session_is_begun_anew() {
    let (fake, fixture) = with(Like::Forgetful).await;
    for _ in 0..3 {
        assert_eq!(fixture.text("echo", json!({})).await, "before it was forgotten");
    }
    assert_eq!(fake.count("initialize"), 3);
}

/// MC08: nobody there, and something else there.
#[tokio::test]
async fn mc08_what_is_no_server_is_told() {
    let nobody = of_url("http://127.0.0.1:1/mcp".into(), &[]);
    let error = nobody.error("echo", json!({})).await;
    assert!(error.contains("cannot be reached: ") && error.contains("refused"), "{error}");
    let (_fake, page) = with(Like::Page).await;
    let error = page.error("echo", json!({})).await;
    assert!(error.contains("does not speak MCP as expected") && error.contains("text/html"), "{error}");
    let bad = of_url("http://127.0.0.1:1/mcp".into(), &[("X", "a\nb")]);
    assert!(bad.error("echo", json!({})).await.contains("header `X` cannot be sent"));
}
