//! The agent loop over OpenAI's chat completions, against a fake server that is as strict as the real API.

mod budget;
pub(crate) mod chat_format;
mod failures;
pub(crate) mod fake;
mod output;
mod summary;
mod together;
mod turns;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use haft::agent::{Agent, AgentSettings, History, Outcome};
use haft::call::{ToolCall, ToolDef, ToolResult};
use haft::grant::Grant;
use haft::limit::Limits;
use haft::provider::{self, Patience, Provider, ProviderError, ProviderSettings, Retry};
use haft::tool::{Context, Session, Tool, ToolError, Toolbox};
use serde_json::{Value, json};

use self::fake::Fake;

/// Every call that a [`Native`] received, in order.
pub(crate) type Log = Arc<Mutex<Vec<ToolCall>>>;
pub(crate) type Act = fn(&Value) -> Result<ToolResult, ToolError>;

/// A tool that records its calls and answers with the result of a function.
struct Native {
    def: ToolDef,
    log: Log,
    act: Act,
}

#[async_trait]
impl Tool for Native {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn call(&self, call: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        self.log.lock().unwrap().push(call.clone());
        (self.act)(&call.arguments)
    }
}

fn def(name: &str) -> ToolDef {
    let parameters = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    ToolDef { name: name.into(), description: format!("The tool {name}."), parameters, ..ToolDef::default() }
}

/// A toolbox whose tools write to one log.
pub(crate) fn toolbox(tools: &[(&str, Act)]) -> (Toolbox, Log) {
    let (mut toolbox, log) = (Toolbox::default(), Log::default());
    for (name, act) in tools {
        let tool = Native { def: def(name), log: log.clone(), act: *act };
        toolbox.insert(Arc::new(tool), Grant::none(), Limits::default(), "the test").unwrap();
    }
    (toolbox, log)
}

/// Answers its argument `text`.
pub(crate) const ECHO: (&str, Act) =
    ("echo", |arguments| Ok(ToolResult::success(arguments["text"].as_str().unwrap_or("nothing"))));
/// Fails on every call.
const BROKEN: (&str, Act) = ("broken", |_| Err(ToolError::ExecutionFailed("out of order".into())));

/// Settings for the fake server, with retry delays too short to slow a test.
pub(crate) fn settings(fake: &Fake) -> ProviderSettings {
    ProviderSettings {
        base_url: Some(fake.base_url()),
        patience: crate::providers::quick(),
        // Whole answers: `providers` tests streamed answers for every vendor.
        stream: false,
        ..ProviderSettings::new("openai", "fake-model")
    }
}

fn provider(settings: ProviderSettings) -> Arc<dyn Provider> {
    provider::build(settings).unwrap()
}

fn agent(fake: &Fake, toolbox: Toolbox) -> Agent {
    Agent::new(provider(settings(fake)), toolbox, AgentSettings::default())
}

/// Runs a prompt in a new conversation.
async fn run(agent: &Agent) -> Result<Outcome, ProviderError> {
    let outcome = agent.run(&mut History::default(), "do it", &Session::default()).await.unwrap();
    match outcome.failure.clone() {
        Some(failure) => Err(failure),
        None => Ok(outcome),
    }
}

/// The tool messages of a request, as pairs of id and content.
pub(crate) fn answers(request: &Value) -> Vec<(String, String)> {
    let text = |message: &Value, key: &str| message[key].as_str().unwrap().to_owned();
    let messages = request["messages"].as_array().unwrap().iter();
    let tools = messages.filter(|message| message["role"] == "tool");
    tools.map(|message| (text(message, "tool_call_id"), text(message, "content"))).collect()
}

fn pairs(answers: &[(&str, &str)]) -> Vec<(String, String)> {
    answers.iter().map(|(id, content)| ((*id).to_owned(), (*content).to_owned())).collect()
}
