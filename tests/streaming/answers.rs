//! Answers that arrive in pieces.

use std::time::Duration;

use haft::grant::Grant;
use haft::limit::Limits;
use haft::plugin::{Contract, Plugin, Source};
use serde_json::json;

use super::{component, guest, pieces, within};
use crate::common::engine;
use crate::common::wait::eventually;

/// WA01: every function is a tool, synchronous or asynchronous.
#[tokio::test]
async fn asynchronous_functions_are_tools() {
    let plugin =
        Plugin::load(engine(), "guest", Source::File(component()), &Limits::default()).await.unwrap();
    assert_eq!(plugin.contract(), Contract::Typed);
    assert_eq!(plugin.uncallable(), []);
    let guest = guest(Grant::none()).await;
    assert_eq!(guest.says("plain", json!({ "text": "ü" })).await, "ü");
    assert_eq!(guest.says("wait", json!({ "milliseconds": 5 })).await, "waited 5 ms");
}

/// WA01: haft reports a streamed answer piece by piece, and returns one whole answer.
#[tokio::test]
async fn streams_and_futures_are_answers() {
    let guest = guest(Grant::none()).await;
    let counted = guest.says("count", json!({ "count": 3, "milliseconds": 1 })).await;
    assert_eq!(pieces(&guest).len(), 3);
    assert_eq!(pieces(&guest).concat(), counted);
    assert!(counted.starts_with("1 ") && counted.lines().count() == 3, "{counted}");
    let bytes = guest.call("bytes", json!({ "count": 1000 })).await;
    assert_eq!(bytes.attachments[0].data.len(), 1000);
    assert_eq!(guest.says("text", json!({ "text": "täxt €" })).await, "täxt €");
    assert!(pieces(&guest).ends_with(&["t", "ä", "x", "t", " ", "€"].map(str::to_owned)));
    let numbers = guest.says("numbers", json!({ "count": 3 })).await;
    assert_eq!(numbers, "[0,9007199254740992,\"18014398509481984\"]");
    assert_eq!(guest.says("later", json!({ "text": "now", "milliseconds": 5 })).await, "now");
}

/// WA01: a stream that fails has its pieces and then the reason; a function that fails at once has the reason.
#[tokio::test]
async fn a_stream_may_fail() {
    let guest = guest(Grant::none()).await;
    assert_eq!(guest.says("broken", json!({})).await, "one, two");
    let failed = guest.fails("broken", json!({ "failure": "no third" })).await;
    assert_eq!(failed, "Tool error: one, two\nno third");
    assert_eq!(guest.fails("refused", json!({})).await, "Tool error: as told");
}

/// WA01: streams and futures are valid arguments.
#[tokio::test]
async fn streams_and_futures_are_arguments() {
    let guest = guest(Grant::none()).await;
    assert_eq!(guest.says("upper", json!({ "pieces": ["a", "b", ""] })).await, "AB");
    assert_eq!(guest.says("size", json!({ "bytes": "x".repeat(100_000) })).await, "100000");
    assert_eq!(guest.says("size", json!({ "bytes": { "base64": "AAECAw==" } })).await, "4");
    assert_eq!(guest.says("awaited", json!({ "number": 7 })).await, "7");
    let wrong = guest.fails("awaited", json!({ "number": -7 })).await;
    assert!(wrong.contains("number"), "{wrong}");
}

/// haft reports pieces as the guest makes them, and a call that is cancelled between pieces ends.
#[tokio::test]
async fn pieces_are_told_as_they_are_made() {
    let guest = within(Grant::none(), Limits { time: Duration::from_hours(1), ..Limits::default() }).await;
    // Twenty pieces take 0.2 s, all of them hours.
    let counted = guest.fails("count", json!({ "count": 1_000_000, "milliseconds": 10 }));
    let cancel = async {
        eventually("pieces are told", || pieces(&guest).len() >= 20).await;
        guest.session.cancel.cancel();
    };
    let (end, ()) = tokio::join!(counted, cancel);
    assert_eq!(end, "Tool error (haft): `count` was cancelled");
}
