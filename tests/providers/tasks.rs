//! A task with two concurrent calls, with each vendor, streamed and whole.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use haft::agent::{Agent, AgentSettings, End, History};
use haft::call::{ToolCall, ToolDef, ToolResult};
use haft::event::{Event, Events};
use haft::grant::Grant;
use haft::limit::Limits;
use haft::provider::{Cost, Prices, Usage};
use haft::tool::{Context, Session, Tool, ToolError, Toolbox};
use serde_json::{Value, json};

use super::server::{Answer, Said, Server, Vendor};
use super::{VENDORS, provider, settings};

/// A tool whose schema has the sdk's form: an optional argument may be null.
struct Shout(ToolDef);

#[async_trait]
impl Tool for Shout {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    async fn call(&self, call: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        match call.arguments["text"].as_str() {
            Some("fail") => Err(ToolError::ExecutionFailed("hoarse".into())),
            text => Ok(ToolResult::success(text.unwrap_or("nothing").to_uppercase())),
        }
    }
}

pub(super) fn toolbox() -> Toolbox {
    let mut toolbox = Toolbox::default();
    for name in ["shout", "cry"] {
        let parameters = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
            "properties": {
                "text": { "type": "string", "description": "What" },
                "times": { "type": ["integer", "null"], "format": "uint32", "minimum": 0 },
                "mood": { "anyOf": [{ "$ref": "#/$defs/mood" }, { "type": "null" }] },
            },
            "required": ["text"],
            "$defs": { "mood": { "type": "string", "enum": ["glad", "sad"] } },
        });
        let def =
            ToolDef { name: name.into(), description: "Shouts.".into(), parameters, ..ToolDef::default() };
        toolbox.insert(Arc::new(Shout(def)), Grant::none(), Limits::default(), "the test").unwrap();
    }
    toolbox
}

/// The events of a task, turn by turn.
#[derive(Default)]
struct Received {
    said: String,
    thought: String,
    pieces: usize,
}

fn listener() -> (Arc<Mutex<Received>>, Events) {
    let received = Arc::new(Mutex::new(Received::default()));
    let sink = received.clone();
    let events = Events::to(move |event| {
        let mut received = sink.lock().unwrap();
        match event {
            Event::Asked { .. } => received.said.push('|'),
            Event::Said(text) => {
                received.said.push_str(text);
                received.pieces += 1;
            }
            Event::Thought(text) => received.thought.push_str(text),
            _ => {}
        }
    });
    (received, events)
}

fn script() -> [Answer; 3] {
    let first = Said {
        thought: "let me see",
        text: "I will shout twice.",
        calls: vec![
            ("call_1", "shout", json!({ "text": "hey you", "times": 1 })),
            ("call_2", "cry", json!({ "text": "there" })),
        ],
    };
    let second = Said { calls: vec![("call_3", "shout", json!({ "text": "fail" }))], ..Said::default() };
    let last = Said { text: "HEY YOU there, and hoarse.", thought: "done", ..Said::default() };
    [Answer::Turn(first), Answer::Turn(second), Answer::Turn(last)]
}

/// Runs the task; the requests.
async fn task(vendor: &'static dyn Vendor, stream: bool) -> Vec<Value> {
    let server = Server::start(vendor, script()).await;
    let prices = Prices { input: 1e6, output: 2e6, cached: Some(0.5e6), stored: None };
    let mut settings = settings(&server, stream);
    if vendor.name() != "openrouter" {
        settings.prices.insert("fake-model".into(), prices);
    }
    let agent = Agent::new(provider(settings), toolbox(), AgentSettings::default());
    let (received, events) = listener();
    let session = Session { events, ..Session::default() };
    let outcome = agent.run(&mut History::default(), "shout", &session).await.unwrap();
    server.assert_done();
    let received = received.lock().unwrap();
    let name = vendor.name();
    assert_eq!((outcome.end, outcome.turns), (End::Final, 3), "{name}");
    assert_eq!(outcome.text, "HEY YOU there, and hoarse.", "{name}");
    assert_eq!(outcome.model, "fake-model-1");
    assert_eq!(received.said, "|I will shout twice.||HEY YOU there, and hoarse.", "{name}");
    assert_eq!(received.thought, if stream { "let me seedone" } else { "" }, "{name}");
    assert!(if stream { received.pieces > 4 } else { received.pieces == 2 }, "{name}: {}", received.pieces);
    let cached = if name == "ollama" { 0 } else { 12 };
    // OpenRouter reports the cost; haft calculates the cost of the others.
    let cost = match name {
        "openrouter" => 0.75,
        "ollama" => 60.0,
        _ => 54.0,
    };
    let cost = Some(Cost::of_dollars(cost));
    assert_eq!(outcome.usage, Usage { input: 30, output: 15, cached, stored: 0, cost }, "{name}");
    server.bodies()
}

/// PL01, PL02, PL03, PL08: a task with two concurrent calls succeeds with each vendor, in whole answers.
#[tokio::test]
async fn a_task_with_two_tools_at_once_is_done_with_each_vendor() {
    for vendor in VENDORS {
        let requests = task(vendor, false).await;
        assert_eq!(requests.len(), 3);
    }
}

/// PL01, PL02, PL03: a task with two concurrent calls succeeds with each vendor, streamed.
#[tokio::test]
async fn a_streamed_task_with_two_tools_at_once_is_done_with_each_vendor() {
    for vendor in VENDORS {
        task(vendor, true).await;
    }
}

/// PL13: the start of each request equals the start of the last one, because prompt caches depend on it.
#[tokio::test]
async fn the_beginning_of_every_request_stays_the_same() {
    for vendor in VENDORS {
        let requests = task(vendor, true).await;
        for request in &requests {
            for key in ["tools", "system", "systemInstruction", "instructions", "model"] {
                assert_eq!(request.get(key), requests[0].get(key), "{}: {key}", vendor.name());
            }
            let turns = |request: &Value| {
                ["messages", "contents", "input"]
                    .iter()
                    .find_map(|key| request[*key].as_array().cloned())
                    .unwrap()
            };
            let (first, this) = (turns(&requests[0]), turns(request));
            // Only Anthropic's cache marks move.
            let unmarked = |message: &Value| {
                let mut message = message.clone();
                for block in
                    message["content"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut)
                {
                    block.remove("cache_control");
                }
                message
            };
            for (one, two) in first.iter().zip(&this) {
                assert_eq!(unmarked(one), unmarked(two), "{}", vendor.name());
            }
        }
    }
}

/// PL04: without tools and system prompt, a request has no such keys.
#[tokio::test]
async fn no_tools_and_no_system_prompt_are_not_mentioned() {
    for vendor in VENDORS {
        let server = Server::start(vendor, [Answer::Turn(Said { text: "hi", ..Said::default() })]).await;
        let quiet = AgentSettings { system: String::new(), ..AgentSettings::default() };
        let agent = Agent::new(provider(settings(&server, true)), Toolbox::default(), quiet);
        agent.run(&mut History::default(), "hello", &Session::default()).await.unwrap();
        server.assert_done();
        let body = server.bodies().remove(0);
        for key in ["tools", "system", "systemInstruction", "instructions"] {
            assert_eq!(body.get(key), None, "{}", vendor.name());
        }
        assert!(!body.to_string().contains("\"system\""), "{}: {body}", vendor.name());
    }
}

/// PL14: haft sends a paused turn back as it is, so that the model continues it.
#[tokio::test]
async fn a_paused_turn_is_gone_on_with() {
    let content = json!([{ "type": "redacted_thinking", "data": "x" }]);
    let paused = json!({
        "type": "message", "role": "assistant", "model": "m", "stop_reason": "pause_turn", "usage": {},
        "content": content,
    });
    let body = Answer::Body("application/json", paused.to_string().into_bytes());
    let server = Server::start(&super::anthropic::Anthropic, [body]).await;
    let agent = Agent::new(provider(settings(&server, true)), Toolbox::default(), AgentSettings::default());
    let mut history = History::default();
    // The fake knows no pauses and refuses the second request, which proves that haft sent it.
    let outcome = agent.run(&mut history, "hello", &Session::default()).await.unwrap();
    let error = outcome.failure.unwrap().to_string();
    assert!(error.contains("the last message is not the user's"), "{error}");
    assert_eq!(history.messages().len(), 2);
}
