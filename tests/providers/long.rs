//! A task of 200 turns with a vendor of which nothing is safe: every seventh request fails, each time in another way. It
//! ends right, and no call is made twice.

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

/// Turns with a call.
const TURNS: usize = 200;
/// Every so many requests one fails.
const EVERY: usize = 7;
/// With the usual waits, which double from half a second to a minute and are cut by half at most, more than 90 seconds
/// of overload; with those of these tests a five-hundredth of that.
const OVERLOADED: usize = 9;
/// How long a vendor may be silent here: long beside an answer on a busy machine. Each is silent seven times, all at the
/// same time: 56 of the seconds that the test takes.
const SILENCE: Duration = Duration::from_secs(8);

/// Writes down what it is called with.
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

/// How request number `request` fails, before it is answered.
fn failures(vendor: &dyn Vendor, request: usize) -> Vec<Answer> {
    let lost = || call(usize::MAX);
    match request / EVERY % 8 {
        0 => vec![Answer::Status(429, vec![("retry-after", "0")], "slow down")],
        1 => (0..OVERLOADED).map(|_| Answer::Status(503, vec![], "overloaded")).collect(),
        2 => vec![Answer::Stall(lost(), 1)],
        3 => vec![Answer::Cut(lost(), 1, false)],
        4 => vec![Answer::Body(media_type(vendor), b"data: {\"half\": \n\n".to_vec())],
        5 => vec![Answer::Body("application/json", vendor.empty().to_string().into_bytes())],
        6 => vec![Answer::ErrorAfter(lost(), "unexpected end of the model's words")],
        _ => vec![Answer::Silence],
    }
}

fn media_type(vendor: &dyn Vendor) -> &'static str {
    vendor.write(&Said::default(), true).media_type
}

fn script(vendor: &dyn Vendor) -> Vec<Answer> {
    let mut script = Vec::new();
    for turn in 0..TURNS {
        if turn % EVERY == EVERY - 1 {
            script.extend(failures(vendor, turn));
        }
        script.push(Answer::Turn(call(turn)));
    }
    script.push(Answer::Turn(Said { text: "counted to the end", ..Said::default() }));
    script
}

async fn count_to_the_end(vendor: &'static dyn Vendor) {
    let server = Server::start(vendor, script(vendor)).await;
    let timeouts = Timeouts { first_byte: SILENCE, idle: SILENCE, ..Timeouts::default() };
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
    // Every failure, and of every eighth as many as there were.
    assert!(again >= TURNS / EVERY + 3 * (OVERLOADED - 1), "{name}: asked again {again} times");
    server.assert_done();
}

/// G05, G06: in all formats at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn g05_g06_a_long_task_outlasts_everything_that_goes_wrong() {
    let mut tasks: JoinSet<()> = VENDORS.into_iter().map(count_to_the_end).collect();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}
