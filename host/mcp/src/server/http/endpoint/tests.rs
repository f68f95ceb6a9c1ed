use http_body_util::BodyExt;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};
use std::time::Duration;

use super::*;
use crate::server::{Publisher, ServerInfo, ToolSnapshot};
use haft_core::tool::{Session, Toolbox};
use haft_core::trace::Wire;

/// Only a hanging test reaches this.
const HANG: Duration = Duration::from_mins(5);

fn no_tools() -> ToolSnapshot {
    ToolSnapshot::new(Toolbox::default(), Session::default(), ServerInfo::default(), true)
}

/// An endpoint, and a session of `version` behind it.
struct Opened {
    endpoint: Endpoint,
    caller: ServerShared,
    publisher: Publisher,
    headers: HeaderMap,
}

impl Opened {
    async fn new(version: &'static str) -> Self {
        let (publisher, snapshots) = Publisher::new(no_tools());
        let (endpoint, caller) = (Endpoint::new(8, None), ServerShared::new(snapshots, "test", Wire::Http));
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut opened = Self { endpoint, caller, publisher, headers };
        let client = json!({"name": "test", "version": "0"});
        let open = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
        let answer =
            opened.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": open})).await;
        opened.headers.insert(SESSION, answer.headers()[SESSION].clone());
        opened.headers.insert("mcp-protocol-version", HeaderValue::from_static(version));
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(opened.post(&initialized).await.status(), StatusCode::ACCEPTED);
        opened
    }

    async fn send(&self, method: Method, body: &str) -> Result<HttpResponse, Refusal> {
        let body = Bytes::from(body.to_owned());
        self.endpoint.answer(&method, &self.headers, &body, self.caller.clone()).await
    }

    async fn post(&self, message: &Value) -> HttpResponse {
        self.send(Method::POST, &message.to_string()).await.unwrap()
    }

    /// Reads a stream until `end`.
    async fn read_until(answer: HttpResponse, end: &str) -> String {
        let (mut body, mut told) = (answer.into_body(), String::new());
        let reading = async {
            while !told.contains(end) {
                let frame = body.frame().await.unwrap().unwrap();
                told += std::str::from_utf8(frame.data_ref().unwrap()).unwrap();
            }
            told
        };
        tokio::time::timeout(HANG, reading).await.unwrap()
    }
}

const CHANGED: &str = "notifications/tools/list_changed";

/// A client without a stream is notified of changed tools by its next stream, once.
#[tokio::test]
async fn news_that_a_client_missed_are_told_in_its_next_stream() {
    let opened = Opened::new("2025-11-25").await;
    opened.publisher.publish(no_tools());
    let stream = opened.send(Method::GET, "").await.unwrap();
    let told = Opened::read_until(stream, CHANGED).await;
    assert!(told.starts_with("id: 0\nretry: 3000\ndata: \n\nid: 1\n"), "{told}");
    let again = opened.send(Method::GET, "").await.unwrap();
    assert_eq!(opened.send(Method::DELETE, "").await.unwrap().status(), StatusCode::NO_CONTENT);
    let rest = again.into_body().collect().await.unwrap().to_bytes();
    assert!(!std::str::from_utf8(&rest).unwrap().contains(CHANGED), "{rest:?}");
    let over =
        opened.send(Method::POST, &json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string()).await;
    assert_eq!(over.unwrap_err().into_response().status(), StatusCode::NOT_FOUND);
}

/// The form of an answer follows from the request: in a session a call has a stream, everything else is an object.
#[tokio::test]
async fn the_form_of_an_answer_follows_from_its_request() {
    const OBJECT: &str = "application/json";
    for (version, primes) in [("2024-11-05", false), ("2025-06-18", false), ("2025-11-25", true)] {
        let opened = Opened::new(version).await;
        for (method, params, form) in [
            ("ping", json!({}), OBJECT),
            ("tools/list", json!({"_meta": {"progressToken": 1}}), OBJECT),
            ("prompts/list", json!({}), OBJECT),
            ("logging/setLevel", json!({"level": "debug"}), OBJECT),
            ("no/such", json!({}), OBJECT),
            ("tools/call", json!({"name": "none"}), "text/event-stream"),
            ("prompts/get", json!({"name": "none"}), "text/event-stream"),
            ("resources/read", json!({"uri": "none:"}), "text/event-stream"),
        ] {
            let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
            let answer = opened.post(&message).await;
            assert_eq!(
                (answer.status(), &answer.headers()[CONTENT_TYPE]),
                (StatusCode::OK, &HeaderValue::from_static(form)),
                "{version} {method}"
            );
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let text = std::str::from_utf8(&body).unwrap();
            assert!(text.contains("\"id\":7"), "{version} {method}: {text}");
            assert_eq!(text.contains("data: \n"), primes && form != OBJECT, "{version} {method}: {text}");
        }
    }
}

/// MC09: another connection can fetch a sent answer again, for a limited time.
#[tokio::test]
async fn an_answer_that_was_sent_can_be_had_again() {
    let mut opened = Opened::new("2025-11-25").await;
    let call =
        |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "none"}});
    for id in 0..20 {
        let body = opened.post(&call(id)).await.into_body().collect().await.unwrap().to_bytes();
        assert!(std::str::from_utf8(&body).unwrap().starts_with(&format!("id: 0/{id}\n")), "{body:?}");
    }
    for (last, expected) in
        [("0/19", Some("\"id\":19")), ("0/10", Some("\"id\":10")), ("0/0", None), ("1/19", None), ("x", None)]
    {
        opened.headers.insert(LAST_EVENT, HeaderValue::from_static(last));
        let answer = opened.send(Method::GET, "").await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let text = std::str::from_utf8(&body).unwrap();
        assert!(expected.map_or(text.is_empty(), |expected| text.contains(expected)), "{last}: {text}");
    }
}

/// A batch contains messages of its session alone, each within its own bounds, and ends.
#[tokio::test]
async fn a_batch_has_requests_of_its_session_alone() {
    let opened = Opened::new("2025-03-26").await;
    let later = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listen = json!({"notifications": {}, "_meta": later});
    let client = json!({"name": "test", "version": "0"});
    let open = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client});
    let many = vec![0; 20_000];
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": listen},
        {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": open},
        {"jsonrpc": "2.0", "id": 3, "method": "x", "params": {"many": many}},
        {"jsonrpc": "2.0", "id": 4, "method": "ping"},
    ]);
    let answer = tokio::time::timeout(HANG, opened.post(&batch)).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let answers: Vec<Value> = serde_json::from_slice(&body).unwrap();
    let found: Vec<_> = answers.iter().map(|one| (one["id"].as_u64(), one.get("error").is_some())).collect();
    assert_eq!(found, [(Some(1), true), (Some(2), true), (Some(3), true), (Some(4), false)], "{answers:?}");
}

/// A session is opened once, and its endpoint reports its methods.
#[tokio::test]
async fn a_session_is_opened_once() {
    let opened = Opened::new("2025-11-25").await;
    let client = json!({"name": "test", "version": "0"});
    let open = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let again = json!({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": open});
    let refused = opened.send(Method::POST, &again.to_string()).await.unwrap_err().into_response();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let unknown = opened.send(Method::PUT, "").await.unwrap();
    assert_eq!(
        (unknown.status(), &unknown.headers()[ALLOW]),
        (StatusCode::METHOD_NOT_ALLOWED, &HeaderValue::from_static("GET, POST, DELETE"))
    );
}

/// The answer to a refused request has its id, if it can be read. Otherwise the id is null in a session, and omitted in
/// revisions without sessions and for data that are not a request.
#[tokio::test]
async fn the_id_of_a_refusal_is_that_of_its_request() {
    let opened = Opened::new("2025-11-25").await;
    let mut later = Opened::new("2025-11-25").await;
    later.headers.remove(SESSION);
    later.headers.insert("mcp-protocol-version", HeaderValue::from_static("2026-07-28"));
    let many = serde_json::to_string(&vec![0; 200_000]).unwrap();
    for (text, ids) in [
        ("{".to_owned(), [Some(Value::Null), None]),
        (r#"{"jsonrpc": "2.0", "id": 7, "method": "ping""#.to_owned(), [Some(json!(7)), Some(json!(7))]),
        (r#"{"jsonrpc": "2.0", "id": 7, "method": 1}"#.to_owned(), [Some(json!(7)), Some(json!(7))]),
        (
            format!(r#"{{"jsonrpc": "2.0", "id": "a", "method": "x", "params": {many}}}"#),
            [Some(json!("a")), Some(json!("a"))],
        ),
        (format!(r#"{{"jsonrpc": "2.0", "id": 7, "result": {many}}}"#), [Some(Value::Null), None]),
    ] {
        for (opened, id) in [&opened, &later].into_iter().zip(ids) {
            let refused = opened.send(Method::POST, &text).await.unwrap_err().into_response();
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
            let body = refused.into_body().collect().await.unwrap().to_bytes();
            let refused: Value = serde_json::from_slice(&body).unwrap();
            let shown: String = text.chars().take(60).collect();
            assert!(refused["error"]["code"].is_i64(), "{shown}: {refused}");
            assert_eq!(refused.get("id"), id.as_ref(), "{shown}: {refused}");
        }
    }
    let answer = json!({"jsonrpc": "2.0", "id": 7, "result": {}}).to_string();
    let refused = later.send(Method::POST, &answer).await.unwrap_err().into_response();
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    assert!(!std::str::from_utf8(&body).unwrap().contains("\"id\""), "{body:?}");
}

/// A request that ends without an answer, as after a panic, is answered by an error; a cancelled one is not
/// answered.
#[tokio::test]
async fn a_request_that_ends_without_an_answer_is_an_error() {
    let opened = Opened::new("2025-11-25").await;
    let session = opened.endpoint.session(&opened.headers, &opened.caller).unwrap();
    for (is_taken_back, expected) in [(false, "-32603"), (true, "")] {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "none"}});
        let open = session.begin(&serde_json::from_value(call).unwrap(), true).unwrap();
        let stream = open.stream.as_ref().unwrap().stream.clone();
        if is_taken_back {
            let cancel = json!({"requestId": 7});
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel});
            session.take(serde_json::from_value(cancel).unwrap());
        }
        drop(open);
        let body = stream.whole(false).unwrap().into_body().collect().await.unwrap().to_bytes();
        let text = std::str::from_utf8(&body).unwrap();
        assert!(text.contains(expected) && text.is_empty() == is_taken_back, "{text}");
    }
}
