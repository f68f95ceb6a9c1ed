//! The concurrent calls of a turn, the lines that are saved before a call runs, and the part of a long conversation
//! that is sent.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft::agent::{Begun, End, History, Sessions};
use haft::call::Hints;
use haft::event::{Event, Events};
use haft::secret::Redactor;
use haft::tool::Ledger;

use super::fake::{calls, says};
use super::*;
use crate::common::wait::within;

/// A tool that counts its concurrent calls.
struct Slow {
    def: ToolDef,
    /// The number of calls that must run at once before the first ends.
    together: usize,
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    order: Log,
}

#[async_trait]
impl Tool for Slow {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn call(&self, call: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let gathered = async {
            while self.most.load(Ordering::SeqCst) < self.together {
                tokio::task::yield_now().await;
            }
        };
        within("enough run at once", gathered).await;
        // Other calls can begin during this time.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        self.order.lock().unwrap().push(call.clone());
        Ok(ToolResult::success(call.id.clone()))
    }
}

/// The read-only tool `look` and the tool `change`; the maximum number of concurrent calls; the calls in the order of
/// their ends.
fn slow(together: usize) -> (Toolbox, Arc<AtomicUsize>, Log) {
    let (now, most, order) = (Arc::default(), Arc::<AtomicUsize>::default(), Log::default());
    let mut toolbox = Toolbox::default();
    for (name, read_only) in [("look", true), ("change", false)] {
        let hints = Hints { read_only, ..Hints::default() };
        let def = ToolDef { hints, ..def(name) };
        let tool = Slow { def, together, now: Arc::clone(&now), most: most.clone(), order: order.clone() };
        toolbox.insert(Arc::new(tool), Grant::none(), Limits::default(), "the test").unwrap();
    }
    (toolbox, most, order)
}

fn turn(tools: &[(&str, &str, &str)]) -> fake::Answer {
    calls(tools)
}

/// PL03: read-only calls run concurrently; other calls run alone and in order.
#[tokio::test]
async fn calls_that_only_read_run_at_the_same_time_and_the_others_in_order() {
    let looks = turn(&[
        ("a", "look", r#"{"text":"1"}"#),
        ("b", "look", r#"{"text":"2"}"#),
        ("c", "look", r#"{"text":"3"}"#),
        ("d", "change", r#"{"text":"1"}"#),
        ("e", "change", r#"{"text":"2"}"#),
        ("f", "look", r#"{"text":"4"}"#),
    ]);
    let fake = Fake::start([looks, says("done")]).await;
    let (toolbox, most, order) = slow(3);
    run(&agent(&fake, toolbox)).await.unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 3);
    let ended: Vec<_> = order.lock().unwrap().iter().map(|call| call.id.clone()).collect();
    assert_eq!(ended[3..], ["d", "e", "f"]);
    let ids: Vec<_> =
        answers(&fake.requests()[1]).into_iter().map(|(id, content)| (id.clone(), id == content)).collect();
    assert_eq!(ids, ["a", "b", "c", "d", "e", "f"].map(|id| (id.to_owned(), true)));
    fake.assert_done();
}

/// PL03: at most eight calls run at once, even if the model requests more.
#[tokio::test]
async fn no_more_than_eight_calls_run_at_once() {
    let ids: Vec<_> = (0..20).map(|n| (format!("c{n}"), format!(r#"{{"text":"{n}"}}"#))).collect();
    let calls: Vec<_> = ids.iter().map(|(id, arguments)| (id.as_str(), "look", arguments.as_str())).collect();
    let fake = Fake::start([fake::calls(&calls), says("done")]).await;
    let (toolbox, most, _) = slow(8);
    run(&agent(&fake, toolbox)).await.unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 8);
    fake.assert_done();
}

/// PL20: a call that cannot be recorded before it runs does not run.
#[tokio::test]
async fn a_call_that_cannot_be_written_down_is_not_run() {
    let fake = Fake::start([turn(&[("a", "change", "{}")]), says("done")]).await;
    let (toolbox, _, order) = slow(1);
    let ledger = Ledger::to(|_| Err(io::Error::other("no space left on device")));
    let session = Session { ledger, ..Session::default() };
    agent(&fake, toolbox).run(&mut History::default(), "do it", &session).await.unwrap();
    assert_eq!(order.lock().unwrap().len(), 0);
    let expected = "Error: the call was not run: the journal cannot record it: no space left on device";
    assert_eq!(answers(&fake.requests()[1]), pairs(&[("a", expected)]));
    fake.assert_done();
}

/// PL20: if a run is dropped during a call, the resumed session tells the model that the call's outcome is unknown,
/// and runs the calls that had not run.
#[tokio::test]
async fn a_session_goes_on_in_the_middle_of_a_turn() {
    let place = tempfile::tempdir().unwrap();
    let (sessions, redactor) = (Sessions::new(place.path().join("sessions")), Redactor::default());
    let calls =
        turn(&[("a", "change", r#"{"text":"1"}"#), ("b", "change", r#"{"text":"2"}"#), ("c", "look", "{}")]);
    let fake = Fake::start([calls, says("done")]).await;
    let (toolbox, _, order) = slow(1);
    let agent = agent(&fake, toolbox);
    let log = sessions.begin(Begun::new(None, None, None), "do it", &redactor).unwrap();
    let saved = sessions.find(log.id()).unwrap();
    {
        let mut history = History::logged(log, "do it");
        let stop = tokio_util::sync::CancellationToken::new();
        let trigger = stop.clone();
        let events = Events::to(move |event| {
            if matches!(event, Event::Running { call } if call == "b") {
                trigger.cancel();
            }
        });
        let session = Session { events, ..Session::default() };
        tokio::select! {
            _ = agent.go_on(&mut history, &session) => panic!("it was to be stopped"),
            () = stop.cancelled() => {}
        }
    }
    let (log, restored) = sessions.resume(&saved, &redactor).unwrap();
    let unknown: Vec<_> = restored.unknown().map(|call| call.id.clone()).collect();
    assert_eq!(unknown, ["b"]);
    let mut history = History::restored(restored, Some(log)).unwrap();
    let outcome = agent.go_on(&mut history, &Session::default()).await.unwrap();
    assert_eq!((outcome.end, outcome.text.as_str()), (End::Final, "done"));
    let ran: Vec<_> = order.lock().unwrap().iter().map(|call| call.id.clone()).collect();
    assert_eq!(ran, ["a", "c"]);
    let report = answers(&fake.requests()[1]);
    assert_eq!((report[0].1.as_str(), report[2].1.as_str()), ("a", "c"));
    assert!(report[1].1.contains("the outcome of this call is unknown"), "{report:?}");
    // The unknown outcome is saved and not reported again.
    drop(history);
    let again = saved.restored().unwrap();
    assert!(again.open.is_none() && again.unknown().next().is_none() && again.ended.is_some());
    fake.assert_done();
}

/// PL20: a conversation over its budget is sent without its oldest turns, with complete pairs of calls and answers
/// and with the task; the saved conversation stays complete.
#[tokio::test]
async fn a_long_conversation_is_cut_for_the_model_and_stays_whole() {
    let mut script: Vec<_> = (0..12).map(|_| turn(&[("a", "echo", &*BIG)])).collect();
    script.push(says("done"));
    let fake = Fake::start(script).await;
    let left_out = Arc::new(Mutex::new(Vec::new()));
    let report = left_out.clone();
    let events = Events::to(move |event| {
        if let Event::Trimmed { left_out } = event {
            report.lock().unwrap().push(*left_out);
        }
    });
    let settings = AgentSettings { history_budget: Some(1500), ..AgentSettings::default() };
    let agent = Agent::new(provider(super::settings(&fake)), toolbox(&[ECHO]).0, settings);
    let mut history = History::default();
    let session = Session { events, ..Session::default() };
    agent.run(&mut history, "the task", &session).await.unwrap();
    assert_eq!(history.messages().len(), 14);
    let left_out = left_out.lock().unwrap().clone();
    assert!(!left_out.is_empty() && left_out.len() < 8, "{left_out:?}");
    for request in fake.requests() {
        let messages = request["messages"].as_array().unwrap();
        assert!(messages[1]["content"].as_str().unwrap().ends_with("the task"));
        assert!(request.to_string().len() < 12_000);
    }
    fake.assert_done();
}

static BIG: std::sync::LazyLock<String> =
    std::sync::LazyLock::new(|| json!({ "text": "x".repeat(600) }).to_string());
