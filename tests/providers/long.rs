//! A task of 200 turns with an unreliable vendor: every seventh request fails, each time in another way. The task
//! ends correctly, and no call is made twice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use haft::agent::{Agent, AgentSettings, End, History};
use haft::call::{ToolCall, ToolDef, ToolResult};
use haft::event::{Event, Events};
use haft::grant::Grant;
use haft::limit::Limits;
use haft::provider::{ProviderSettings, Timeouts};
use haft::tool::{Context, Session, Tool, ToolError, Toolbox};
use serde_json::json;
use tokio::task::JoinSet;

use super::server::{Answer, Said, Server, Vendor};
use super::{VENDORS, provider, settings};
use crate::common::HANG;

/// Turns with a call.
const TURNS: usize = 200;
/// One of this number of requests fails.
const EVERY: usize = 7;
/// Attempts against an overloaded vendor: more than 90 seconds with the usual waits, which double from 0.5 s to 60 s
/// and are at most halved; a five-hundredth with the waits of these tests.
const OVERLOADED: usize = 9;
/// Failures that haft gets at once; two more are silent.
const TOLD: usize = 6;

/// A tool that records its arguments.
struct Count {
    def: ToolDef,
    log: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Tool for Count {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn call(&self, call: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        let number = call.arguments["text"].as_str().unwrap().to_owned();
        self.log.lock().unwrap().push(number.clone());
        Ok(ToolResult::success(format!("counted {number}")))
    }
}

fn toolbox() -> (Toolbox, Arc<Mutex<Vec<String>>>) {
    let parameters = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let def =
        ToolDef { name: "count".into(), description: "Counts.".into(), parameters, ..ToolDef::default() };
    let (mut toolbox, log) = (Toolbox::default(), Arc::default());
    let count = Count { def, log: Arc::clone(&log) };
    toolbox.insert(Arc::new(count), Grant::none(), Limits::default(), "the test").unwrap();
    (toolbox, log)
}

fn call(turn: usize) -> Said {
    let id: &'static str = Box::leak(format!("call_{turn}").into_boxed_str());
    Said { text: "Next.", calls: vec![(id, "count", json!({ "text": turn.to_string() }))], ..Said::default() }
}

/// The failures of request number `request` before its answer: one of `ways` kinds.
fn failures(vendor: &dyn Vendor, request: usize, ways: usize) -> Vec<Answer> {
    let lost = || call(usize::MAX);
    match request / EVERY % ways {
        0 => vec![Answer::Status(429, vec![("retry-after", "0")], "slow down")],
        1 => (0..OVERLOADED).map(|_| Answer::Status(503, vec![], "overloaded")).collect(),
        2 => vec![Answer::Cut(lost(), 1, false)],
        3 => vec![Answer::Body(media_type(vendor), b"data: {\"half\": \n\n".to_vec())],
        4 => vec![Answer::Body("application/json", vendor.empty().to_string().into_bytes())],
        5 => vec![Answer::ErrorAfter(lost(), "unexpected end of the model's words")],
        6 => vec![Answer::Stall(lost(), 1)],
        _ => vec![Answer::Silence],
    }
}

fn media_type(vendor: &dyn Vendor) -> &'static str {
    vendor.write(&Said::default(), true).media_type
}

fn script(vendor: &dyn Vendor, ways: usize) -> Vec<Answer> {
    let mut script = Vec::new();
    for turn in 0..TURNS {
        if turn % EVERY == EVERY - 1 {
            script.extend(failures(vendor, turn, ways));
        }
        script.push(Answer::Turn(call(turn)));
    }
    script.push(Answer::Turn(Said { text: "counted to the end", ..Said::default() }));
    script
}

async fn count_to_the_end(vendor: &'static dyn Vendor, silence: Option<Duration>) {
    let ways = if silence.is_some() { TOLD + 2 } else { TOLD };
    let server = Server::start(vendor, script(vendor, ways)).await;
    let silence = silence.unwrap_or(HANG);
    let timeouts = Timeouts { first_byte: silence, idle: silence, ..Timeouts::default() };
    let provider = provider(ProviderSettings { timeouts, ..settings(&server, true) });
    let (toolbox, log) = toolbox();
    let many = AgentSettings { max_turns: 400, ..AgentSettings::default() };
    let again = Arc::new(Mutex::new(0));
    let sink = again.clone();
    let events = Events::to(move |event| {
        if let Event::Retrying { .. } = event {
            *sink.lock().unwrap() += 1;
        }
    });
    let session = Session { events, ..Session::default() };
    let outcome = Agent::new(provider, toolbox, many);
    let outcome = outcome.run(&mut History::default(), "count to the end", &session).await.unwrap();
    let name = vendor.name();
    assert_eq!(outcome.failure, None, "{name}");
    assert_eq!((outcome.end, outcome.text.as_str()), (End::Final, "counted to the end"), "{name}");
    assert_eq!(outcome.turns as usize, TURNS + 1, "{name}");
    let expected: Vec<_> = (0..TURNS).map(|turn| turn.to_string()).collect();
    assert_eq!(*log.lock().unwrap(), expected, "{name}: each call once, in order");
    let again = *again.lock().unwrap();
    // Every failure is retried, an overload several times.
    assert!(again >= TURNS / EVERY + 3 * (OVERLOADED - 1), "{name}: asked again {again} times");
    server.assert_done();
}

/// G05, G06: a task of 200 turns ends correctly in all formats, whichever requests fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_long_task_outlasts_everything_that_goes_wrong() {
    all_count_to_the_end(None).await;
}

/// Every vendor fails in every way, concurrently; `silence` is the time limit for silent ones.
pub(crate) async fn all_count_to_the_end(silence: Option<Duration>) {
    let mut tasks: JoinSet<()> =
        VENDORS.into_iter().map(|vendor| count_to_the_end(vendor, silence)).collect();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}
