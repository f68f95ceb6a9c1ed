//! Servers with invalid answers: each is an error that names the reason, and the next call works.

use haft::grant::Grant;
use haft::limit::Limits;
use serde_json::json;

use super::server;
use crate::common::HANG;
use crate::common::wait::{eventually_some, within};
use crate::guest::{Guest, briefly};

/// The result of each misbehaviour.
const ENDS: &[(&str, &str)] = &[
    ("garbage", "failed: its answer to `tools/call` is not JSON"),
    ("html", "failed: its answer to `tools/call` is 200 OK with `text/html` and no message"),
    ("status", "failed: its answer to `tools/call` is 500 Internal Server Error"),
    ("other id", "failed: its answer to `tools/call` is 200 OK with `application/json` and no message"),
    ("no result", "` and no message"),
    ("wrong data", "its output schema"),
    ("question", "`input_required`"),
    ("error", "failed: it answered with the error `ErrorCode::ConnectionTerminated`"),
    ("nothing", "failed: it returned without a complete answer"),
    ("never", "timed out after"),
    ("spin", "timed out after"),
    ("trap", "told to"),
    ("memory", "reached its memory limit"),
    ("headers", "failed"),
    ("body without end", "returned more than 3 MiB; its result limit is 1 MiB"),
    ("event without end", "returned more than 3 MiB; its result limit is 1 MiB"),
    ("events without end", "timed out after"),
    ("unfinished", "with `text/event-stream` and no message"),
    ("left open", "failed: it returned without a complete answer"),
    ("sampling", "requests `sampling/createMessage`, but a plugin cannot send requests during a call"),
];

#[tokio::test]
async fn every_misbehaviour_is_an_error_of_its_call() {
    let (_folder, file) = server("plain");
    let patient = Guest::of(&file, Grant::none(), Limits { time: HANG, ..Limits::default() }).await;
    let hasty = Guest::of(&file, Grant::none(), briefly(1000)).await;
    let mut wrong = Vec::new();
    for (how, expected) in ENDS {
        let guest = if expected.starts_with("timed out") { &hasty } else { &patient };
        let ended = guest.call("hostile", json!({ "how": how })).await;
        if !ended.is_error || !ended.content.contains(expected) {
            wrong.push(format!("{how}: {}", ended.content));
        }
        let answered = async || {
            let next = guest.call("echo", json!({ "text": how })).await;
            assert!(!next.is_error || next.content.contains("timed out"), "{how}: {}", next.content);
            (!next.is_error).then_some(next.content)
        };
        assert_eq!(eventually_some("the next call is answered", answered).await, *how);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A complete answer is the result, also if the guest continues or traps afterwards.
#[tokio::test]
async fn an_answer_counts_however_its_guest_goes_on() {
    for mode in ["plain", "session"] {
        let (_folder, file) = server(mode);
        let guest = Guest::of(&file, Grant::none(), Limits::default()).await;
        for how in ["goes on", "traps after"] {
            assert_eq!(guest.says("hostile", json!({ "how": how })).await, "late", "{mode}: {how}");
        }
    }
}

/// A call that is cancelled while a server sleeps ends at once.
#[tokio::test]
async fn a_cancelled_call_ends() {
    let (_folder, file) = server("plain");
    let guest = Guest::of(&file, Grant::none(), Limits { time: HANG, ..Limits::default() }).await;
    // The call sleeps when a later call has its answer.
    let later = async {
        guest.says("echo", json!({ "text": "later" })).await;
        guest.session.cancel.cancel();
    };
    let call = guest.call("hostile", json!({ "how": "never" }));
    let (ended, ()) = Box::pin(within("the call ends", async { tokio::join!(call, later) })).await;
    assert!(ended.is_error && ended.content.contains("cancelled"), "{}", ended.content);
}
