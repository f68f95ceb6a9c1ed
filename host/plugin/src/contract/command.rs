//! Commands: components that export `wasi:cli/run`, as a toolchain makes of a program with a `main`. Each is one tool,
//! which takes the words of a command line and the standard input, and answers what the program writes. WASI 0.2 tells
//! success from failure, and no other exit codes than 0 and 1.

use serde_json::{Value, json};
use wasmtime::Store;
use wasmtime::component::{Component, InstancePre};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p2::bindings::{Command as Bindings, CommandPre};

use crate::component::listing::{Listing, MAX_DESCRIPTION};
use crate::contract::answer::{Output, Piece};
use crate::contract::{Contract, Request};
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use haft_core::call::{Hints, ToolDef};
use haft_core::tool::ToolError;

/// The interface that makes a component a command; the rest of its version follows.
const INTERFACE: &str = "wasi:cli/run@0.2.";

/// What the tool is called.
const NAME: &str = "run";

/// What the tool does, where the component says nothing of itself.
const DESCRIPTION: &str = "Runs this WebAssembly program with the words of a command line and the text of its standard \
                           input, and returns what it writes.";

/// Whether components with these exports are commands.
pub(crate) fn is_exported(exports: &[&str]) -> bool {
    exports.iter().any(|name| name.starts_with(INTERFACE))
}

/// The one tool. `description`: what the component says of itself.
pub(crate) fn listing(description: Option<&str>) -> Listing {
    let description = match description.map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => format!("{text}\n\n{DESCRIPTION}").chars().take(MAX_DESCRIPTION).collect(),
        None => DESCRIPTION.to_owned(),
    };
    let tool = ToolDef {
        name: NAME.into(),
        title: None,
        description,
        parameters: parameters(),
        hints: Hints::default(),
        output: None,
    };
    Listing { tools: vec![tool], ..Listing::new(Contract::Command) }
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "args": {
                "type": "array",
                "items": { "type": "string" },
                "description": "The words of the command line after the program's name"
            },
            "stdin": { "type": "string", "description": "What the program reads from its standard input" }
        },
        "additionalProperties": false
    })
}

/// A linked command.
#[derive(Clone)]
pub(crate) struct CommandComponent(CommandPre<GuestState>);

/// One instance of it, which is run once.
pub(crate) struct CommandGuest(Bindings);

impl CommandComponent {
    pub(crate) fn new(linked: InstancePre<GuestState>) -> Result<Self, LoadError> {
        CommandPre::new(linked).map(Self).map_err(|error| LoadError::link(&error))
    }

    pub(crate) fn component(&self) -> &Component {
        self.0.instance_pre().component()
    }

    pub(crate) async fn instantiate(&self, store: &mut Store<GuestState>) -> wasmtime::Result<CommandGuest> {
        self.0.instantiate_async(store).await.map(CommandGuest)
    }
}

impl CommandGuest {
    pub(crate) async fn call(
        &self,
        store: &mut Store<GuestState>,
        request: &Request,
    ) -> wasmtime::Result<Result<Output, ToolError>> {
        let state = store.data_mut();
        state.arguments = command_line(&state.run.plugin, &request.arguments.value());
        state.stdin.fill(text(&request.arguments.value(), "stdin").to_owned().into_bytes());
        state.stdout.keep_first(usize::try_from(request.result_limit).unwrap_or(usize::MAX));
        let code = match self.0.wasi_cli_run().call_run(&mut *store).await {
            Ok(ended) => i32::from(ended.is_err()),
            Err(error) => match error.downcast_ref::<I32Exit>() {
                Some(exit) => exit.0,
                None => return Err(error),
            },
        };
        let state = store.data();
        let text = written(&state.stdout.text(), &state.stderr.text(), code);
        Ok(match code {
            0 => Ok(Output { pieces: vec![Piece::Text(text)], structured: None }),
            _ => Err(ToolError::ExecutionFailed(text)),
        })
    }
}

/// The program's name, and the words that follow it.
fn command_line(name: &str, arguments: &Value) -> Vec<String> {
    let words = arguments.get("args").and_then(Value::as_array);
    let words = words.into_iter().flatten().filter_map(Value::as_str);
    std::iter::once(name).chain(words).map(str::to_owned).collect()
}

fn text<'a>(arguments: &'a Value, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Both streams, and how it ended where they do not show it.
fn written(stdout: &str, stderr: &str, code: i32) -> String {
    let end = (code != 0 || stdout.is_empty() && stderr.is_empty()).then(|| format!("(exit code: {code})"));
    let parts = [stdout, stderr, end.as_deref().unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_wrote_and_how_it_ended() {
        assert_eq!(written("out", "", 0), "out");
        assert_eq!(written("out", "err", 0), "out\nerr");
        assert_eq!(written("", "", 0), "(exit code: 0)");
        assert_eq!(written("", "no such file", 2), "no such file\n(exit code: 2)");
    }

    #[test]
    fn the_tool_says_what_the_component_says_of_itself() {
        let tool = |description| listing(description).tools.remove(0);
        assert_eq!(tool(Some(" \n")).description, DESCRIPTION);
        assert!(tool(Some("Counts words.")).description.starts_with("Counts words.\n\nRuns this"));
        haft_core::tool::Schema::compile(&tool(None).parameters).unwrap();
    }
}
