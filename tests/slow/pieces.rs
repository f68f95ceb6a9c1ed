//! The delay of the pieces of a streamed answer.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haft::call::ToolCall;
use haft::event::{Event, Events};
use haft::grant::Grant;
use haft::limit::Limits;
use haft::tool::Session;
use serde_json::json;

use crate::common::toolbox;
use crate::streaming::component;

/// The pieces of a call, and their times of arrival.
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

/// A thousand pieces arrive as the guest makes them: the median delay behind the quickest piece is less than a tenth
/// of the whole duration.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "by night: it measures time"]
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
    // The clocks have different origins, so that the quickest piece is the reference.
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
    let all = Duration::from_nanos(made(&heard[999].1) - first).as_secs_f64() * 1e3;
    assert!(median < all / 10.0, "told {median} ms after they were made, in {all} ms");
}
