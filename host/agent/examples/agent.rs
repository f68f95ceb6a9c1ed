//! An agent with a tool of this program, made from `haft-agent` and `haft-core` alone: no WebAssembly, no MCP, no
//! sandbox.
//!
//! `MODEL_URL=http://127.0.0.1:8080/v1 MODEL=local cargo run -p haft-agent --example agent 'What is 12 times 34?'`
//!
//! If the server needs a key, the program reads it from `MODEL_KEY`.

#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a program of its own, which prints what it likes"
)]

use std::env;
use std::sync::Arc;

use async_trait::async_trait;
use haft_agent::provider::{self, ProviderSettings};
use haft_agent::{Agent, AgentSettings, History, Outcome};
use haft_core::call::{Hints, ToolCall, ToolDef, ToolResult};
use haft_core::event::{Event, Events};
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::{Context, Session, Tool, ToolError, Toolbox};
use serde_json::{Value, json};

/// Multiplies two integers, which models do badly.
struct Multiply(ToolDef);

impl Multiply {
    fn new() -> Self {
        let number = json!({ "type": "integer" });
        Self(ToolDef {
            name: "multiply".into(),
            description: "The product of two integers.".into(),
            parameters: json!({
                "type": "object",
                "properties": { "a": number, "b": number },
                "required": ["a", "b"],
                "additionalProperties": false,
            }),
            hints: Hints { read_only: true, ..Hints::default() },
            ..ToolDef::default()
        })
    }
}

#[async_trait]
impl Tool for Multiply {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    async fn call(&self, call: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        // The toolbox has checked the arguments against the schema: a number that `as_i64` rejects is too large.
        let factor = |name: &str| call.arguments.get(name).and_then(Value::as_i64);
        let product = factor("a").zip(factor("b")).and_then(|(a, b)| a.checked_mul(b));
        product
            .map(|product| ToolResult::success(product.to_string()))
            .ok_or_else(|| ToolError::ExecutionFailed("the product needs more than 64 bits".into()))
    }
}

/// Runs `task` with the model that `settings` name.
pub async fn answer(settings: ProviderSettings, task: &str) -> Result<Outcome, Box<dyn std::error::Error>> {
    let mut toolbox = Toolbox::default();
    toolbox.insert(Arc::new(Multiply::new()), Grant::none(), Limits::default(), "built in")?;
    let agent = Agent::new(provider::build(settings)?, toolbox, AgentSettings::default());
    let events = Events::to(|event| {
        if let Event::Started(call) = event {
            eprintln!("{} {}", call.tool, call.arguments);
        }
    });
    let session = Session { events, ..Session::default() };
    Ok(agent.run(&mut History::default(), task, &session).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = ProviderSettings {
        base_url: env::var("MODEL_URL").ok(),
        api_key: env::var("MODEL_KEY").ok().map(Into::into),
        ..ProviderSettings::new("openai", env::var("MODEL")?)
    };
    let task = env::args().nth(1).ok_or("no task given")?;
    println!("{}", answer(settings, &task).await?.text);
    Ok(())
}
