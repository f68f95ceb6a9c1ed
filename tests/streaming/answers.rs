//! What comes piece by piece.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haft::call::ToolCall;
use haft::event::{Event, Events};
use haft::grant::Grant;
use haft::limit::Limits;
use haft::plugin::{Contract, Plugin, Source};
use haft::tool::Session;
use serde_json::json;

use super::{component, guest, pieces};
use crate::common::{engine, toolbox};

/// WA01: every function is a tool, whether it is asynchronous or not.
#[tokio::test]
async fn wa01_asynchronous_functions_are_tools() {
    let plugin =
        Plugin::load(engine(), "guest", Source::File(component()), &Limits::default()).await.unwrap();
    assert_eq!(plugin.contract(), Contract::Typed);
    assert_eq!(plugin.uncallable(), []);
    let guest = guest(Grant::none()).await;
    assert_eq!(guest.says("plain", json!({ "text": "ü" })).await, "ü");
    assert_eq!(guest.says("wait", json!({ "milliseconds": 5 })).await, "waited 5 ms");
}

/// WA01: an answer that comes piece by piece is told so, and is one answer in the end.
#[tokio::test]
async fn wa01_streams_and_futures_are_answers() {
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

/// WA01: a stream that fails says why, after what had come; so does one that never begins.
#[tokio::test]
async fn wa01_a_stream_may_fail() {
    let guest = guest(Grant::none()).await;
    assert_eq!(guest.says("broken", json!({})).await, "one, two");
    let failed = guest.fails("broken", json!({ "failure": "no third" })).await;
    assert_eq!(failed, "Tool error: one, two\nno third");
    assert_eq!(guest.fails("refused", json!({})).await, "Tool error: as told");
}

/// WA01: streams and futures are arguments too.
#[tokio::test]
async fn wa01_streams_and_futures_are_arguments() {
    let guest = guest(Grant::none()).await;
    assert_eq!(guest.says("upper", json!({ "pieces": ["a", "b", ""] })).await, "AB");
    assert_eq!(guest.says("size", json!({ "bytes": "x".repeat(100_000) })).await, "100000");
    assert_eq!(guest.says("size", json!({ "bytes": { "base64": "AAECAw==" } })).await, "4");
    assert_eq!(guest.says("awaited", json!({ "number": 7 })).await, "7");
    let wrong = guest.fails("awaited", json!({ "number": -7 })).await;
    assert!(wrong.contains("number"), "{wrong}");
}

/// What a call took and when it was heard of.
struct Told {
    calls: Arc<Mutex<Vec<(Instant, String)>>>,
    session: Session,
}

impl Told {
    fn new() -> Self {
        let calls: Arc<Mutex<Vec<(Instant, String)>>> = Arc::default();
        let own = calls.clone();
        let events = Events::to(move |event| {
            if let Event::Partial { text, .. } = event {
                own.lock().unwrap().push((Instant::now(), text.clone()));
            }
        });
        Self { calls, session: Session { events, ..Session::default() } }
    }
}

/// A thousand pieces are told as they are made, and a call that is cancelled between them ends at once. The bounds catch
/// what is told at the end, or never ended, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_pieces_are_told_as_they_are_made() {
    let (told, tools) = (Told::new(), toolbox(&component(), Grant::none(), Limits::default()).await);
    let call = |count: u32, milliseconds: u32| {
        let arguments = json!({ "count": count, "milliseconds": milliseconds });
        ToolCall { id: "call-1".into(), tool: "count".into(), arguments }
    };
    let answer = tools.dispatch(call(1000, 1), &told.session).await;
    assert!(!answer.is_error, "{}", answer.content);
    let heard = std::mem::take(&mut *told.calls.lock().unwrap());
    assert_eq!(heard.len(), 1000);
    // Both clocks count from different beginnings: the quickest piece is the measure of the others.
    let made = |text: &str| text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
    let first = made(&heard[0].1);
    let late = heard.iter().map(|(when, text)| {
        (*when - heard[0].0).as_secs_f64() * 1e3
            - Duration::from_nanos(made(text) - first).as_secs_f64() * 1e3
    });
    let mut late: Vec<f64> = late.collect();
    late.sort_by(f64::total_cmp);
    let least = late[0];
    let median = late[500] - least;
    eprintln!("pieces: p50 {median:.3} ms, p99 {:.3} ms behind the quickest", late[990] - least);
    assert!(median < 100.0, "told {median} ms after they were made");

    let cancel = told.session.cancel.clone();
    let running =
        tokio::spawn(async move { (tools.dispatch(call(1000, 10), &told.session).await, Instant::now()) });
    while told.calls.lock().unwrap().len() < 20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let cancelled = Instant::now();
    cancel.cancel();
    let (answer, ended) = running.await.unwrap();
    eprintln!("cancelled: ended after {:?}", ended - cancelled);
    assert_eq!(answer.content, "Tool error (haft): `count` was cancelled");
    assert!(ended - cancelled < crate::common::HANG);
}
