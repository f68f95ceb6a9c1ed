//! What a server reports during a call, and what a stateless server has to know of the caller to report and to ask.

use haft::event::Event;
use haft::tool::Reply;
use serde_json::json;

use super::http_fake::{HttpFake, Like};
use super::*;

/// Number of calls. Reports that lose a race with the answer are lost in one of them.
const CALLS: usize = 20;

/// A notification of progress and a log message, as the events of a stream.
const REPORTS: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":TOKEN,\"progress\":1,\"message\":\"nearly\"}}\n\n\
     data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"ready\"}}\n\n";

/// The reports that the last call heard before its answer.
fn reports(fixture: &Fixture) -> Vec<String> {
    let received = std::mem::take(&mut *fixture.workspace.received.lock().unwrap());
    let report = |event| match event {
        Event::Progress { done, message, .. } => Some(format!("{done} {message}")),
        Event::Info { message, .. } => Some(message),
        _ => None,
    };
    received.into_iter().filter_map(|(_, event)| report(event)).collect()
}

async fn reports_every_time(fixture: &Fixture, tool: &str, what: &str) {
    for number in 0..CALLS {
        fixture.text(tool, json!({})).await;
        assert_eq!(reports(fixture), ["1 nearly", "fake: ready"], "{what}: call {number}");
    }
}

/// MC04: what a server reports right before its answer is heard before the answer, on pipes and in both eras.
#[tokio::test]
async fn reports_right_before_the_answer_are_heard() {
    for speaks in ["2025-11-25", "2026-07-28"] {
        let fixture = Fixture::new(&json!({ "speaks": speaks }));
        reports_every_time(&fixture, "report", speaks).await;
    }
}

/// MC04: the same over HTTP, where the reports are in the stream of the answer.
#[tokio::test]
async fn reports_in_the_stream_of_an_answer_are_heard() {
    let fake = HttpFake::start(Like::After(REPORTS)).await;
    let endpoint = Endpoint::Http { url: fake.url(), headers: values(&[]), account: None };
    let fixture = Fixture::of(endpoint, HANG, |host| host);
    // The streams of the handshake and of a list have reports too, of no call.
    fixture.list().await.unwrap();
    assert!(reports(&fixture).is_empty());
    reports_every_time(&fixture, "echo", "HTTP").await;
}

/// A call that a server answers with a task ends with the result of the task; its questions are answered, and its messages
/// are progress.
#[tokio::test]
async fn a_task_of_a_server_is_followed_to_its_end() {
    let person = Arc::new(Sayer(Reply::Accept(Some(json!({ "name": "Ada" })))));
    let like = json!({ "speaks": "2026-07-28" });
    let fixture = Fixture::with(&like, HANG, |host| Host { elicitor: Some(person), ..host });
    let told = fixture.text("task", json!({})).await;
    assert_eq!(told, r#"{"who":{"action":"accept","content":{"name":"Ada"}}}"#);
    let progress = reports(&fixture);
    assert!(
        ["working", "input_required"].iter().all(|status| progress.iter().any(|said| said.contains(status))),
        "{progress:?}"
    );
}

/// The capabilities in the metadata of the last call.
fn capabilities(fixture: &Fixture) -> Value {
    let call = fake::received(&fixture.folder()).into_iter().rfind(|m| m["method"] == "tools/call").unwrap();
    call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone()
}

/// MC05: a stateless server knows for each call whether a person can be asked.
#[tokio::test]
async fn a_stateless_server_knows_whether_a_person_can_be_asked() {
    let like = json!({ "speaks": "2026-07-28" });
    let nobody = Fixture::new(&like);
    nobody.text("echo", json!({})).await;
    let known = capabilities(&nobody);
    assert!(known["elicitation"].is_null() && known["roots"].is_object(), "{known}");
    let person = Arc::new(Sayer(Reply::Decline));
    let somebody = Fixture::with(&like, HANG, |host| Host { elicitor: Some(person), ..host });
    somebody.text("echo", json!({})).await;
    let known = capabilities(&somebody);
    assert!(known["elicitation"]["form"].is_object(), "{known}");
}
