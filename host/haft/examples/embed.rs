//! haft embedded in a program: a tool defined here, an agent that may use only this tool, and a session that
//! survives the process. `cargo run --example embed -- http://127.0.0.1:8080/v1 MODEL 'How warm is it in Oslo?'`

#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a program of its own, which prints what it likes"
)]

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use haft::agent::{AgentSettings, Begun, History, Outcome, Sessions};
use haft::call::{Hints, ToolCall, ToolDef, ToolResult};
use haft::event::{Event, Events};
use haft::grant::Grant;
use haft::limit::Limits;
use haft::provider::ProviderSettings;
use haft::tool::{Context, Session, Tool, ToolError};
use haft::{Agent, Toolbox};
use serde_json::{Value, json};

/// A tool: what a model is told of it, and what it does.
struct Thermometer(ToolDef);

impl Thermometer {
    fn new() -> Self {
        Self(ToolDef {
            name: "temperature".into(),
            description: "The temperature in a city, in degrees Celsius.".into(),
            parameters: json!({
                "type": "object",
                "properties": { "city": { "type": "string" } },
                "required": ["city"],
                "additionalProperties": false,
            }),
            // Calls of tools that only read run at the same time.
            hints: Hints { read_only: true, ..Hints::default() },
            ..ToolDef::default()
        })
    }
}

#[async_trait]
impl Tool for Thermometer {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    async fn call(&self, call: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        // The arguments have been checked against the schema.
        match call.arguments.get("city").and_then(Value::as_str) {
            Some("Oslo") => Ok(ToolResult::success("-4")),
            Some("Lisbon") => Ok(ToolResult::success("17")),
            // A failure is an answer too: the model reads it and tries something else.
            _ => Err(ToolError::ExecutionFailed("no thermometer there".into())),
        }
    }
}

/// Does `task` with the model at `url` and keeps the session in `folder`.
pub async fn embed(
    url: &str,
    model: &str,
    task: &str,
    folder: &Path,
) -> Result<Outcome, Box<dyn std::error::Error>> {
    let settings = ProviderSettings { base_url: Some(url.into()), ..ProviderSettings::new("openai", model) };
    let provider = haft::provider::build(settings)?;

    let mut toolbox = Toolbox::default();
    toolbox.insert(Arc::new(Thermometer::new()), Grant::none(), Limits::default(), "this example")?;

    // What happens is told as it happens: words, calls, answers.
    let events = Events::to(|event| {
        if let Event::Completed { call, result, .. } = event {
            eprintln!("{} {} -> {}", call.tool, call.arguments, result.content);
        }
    });
    let session = Session { events, ..Session::default() };

    // `History::default()` would do for a conversation that is never resumed.
    let begun = Begun::new(Some("embed"), None, None);
    let log = Sessions::new(folder).begin(begun, task, &session.redactor)?;
    let mut history = History::logged(log, task);
    let agent = Agent::new(provider, toolbox, AgentSettings::default());
    Ok(agent.go_on(&mut history, &session).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, model, task] = words.as_slice() else {
        return Err("expected the base URL of a model's server, the model's name and a task".into());
    };
    let outcome = embed(url, model, task, &std::env::temp_dir().join("haft-embed")).await?;
    println!("{outcome}");
    Ok(())
}
