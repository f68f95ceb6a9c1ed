//! Commands: components that export `wasi:cli/run`, as toolchains produce them from a program with a `main`. Each
//! component is one tool, whose arguments are the words of a command line and the standard input, and whose
//! answer is the program's output. WASI distinguishes success and failure; few programs set another exit code.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use wasmtime::Store;
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p2::bindings as p2;
use wasmtime_wasi::p3::bindings as p3;

use crate::call::Call;
use crate::component::listing::{Listing, MAX_DESCRIPTION};
use crate::contract::Contract;
use crate::contract::guest::{Answer, Guest, Kind, Linked, MakeGuest, Output, is_among};
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use crate::wasi::stdio::Stdio;
use haft_core::call::{Hints, ToolDef};
use haft_core::tool::ToolError;

/// The interface that makes a component a command; the rest of its version follows.
const INTERFACE: &str = "wasi:cli/run@0.2.";

const LATER: &str = "wasi:cli/run@0.3.";

const NAME: &str = "run";

const DESCRIPTION: &str = "Runs this WebAssembly program with arguments and standard input, and returns its \
                           output.";

pub(crate) const KIND: Kind = Kind {
    contract: Contract::Command,
    is_exported: |exports| Ok([INTERFACE, LATER].iter().any(|interface| is_among(exports, interface))),
    link,
    listing: Some(|_, sections, _| Ok(listing(sections.label("description")))),
    may_offer: false,
    result_cost: 0,
};

fn listing(description: Option<&str>) -> Listing {
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
                "description": "The arguments after the program's name"
            },
            "stdin": { "type": "string", "description": "The program's standard input" }
        },
        "additionalProperties": false
    })
}

fn link(Linked { pre, exports, .. }: &Linked<'_>) -> Result<MakeGuest, LoadError> {
    let failed = |error: wasmtime::Error| LoadError::link(&error);
    if is_among(exports, INTERFACE) {
        let command = p2::CommandIndices::new(pre).map_err(failed)?;
        return Ok(Arc::new(move |store, instance| {
            Ok(Box::new(CommandGuest::Earlier(command.load(store, &instance)?)))
        }));
    }
    let command = p3::CommandIndices::new(pre).map_err(failed)?;
    Ok(Arc::new(move |store, instance| Ok(Box::new(CommandGuest::Later(command.load(store, &instance)?)))))
}

enum CommandGuest {
    Earlier(p2::Command),
    Later(p3::Command),
}

impl CommandGuest {
    async fn run(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Result<(), ()>> {
        match self {
            Self::Earlier(guest) => guest.wasi_cli_run().call_run(store).await,
            Self::Later(guest) => {
                store.run_concurrent(async |store| guest.wasi_cli_run().call_run(store).await).await?
            }
        }
    }
}

#[async_trait]
impl Guest for CommandGuest {
    async fn call(&self, store: &mut Store<GuestState>, call: &Call) -> Answer {
        let GuestState { environment, stdio, .. } = store.data_mut();
        environment.arguments = command_line(&call.plugin, &call.arguments.value());
        stdio.stdin.fill(text(&call.arguments.value(), "stdin").to_owned().into_bytes());
        stdio.stdout.keep_first(usize::try_from(call.limits.result).unwrap_or(usize::MAX));
        let code = match self.run(store).await {
            Ok(ended) => i32::from(ended.is_err()),
            Err(error) => match error.downcast_ref::<I32Exit>() {
                Some(exit) => exit.0,
                None => return Err(error),
            },
        };
        let Stdio { stdout, stderr, .. } = &store.data().stdio;
        let text = written(&stdout.text(), &stderr.text(), code);
        Ok(match code {
            0 => Ok(Output::text(text)),
            _ => Err(ToolError::ExecutionFailed(text)),
        })
    }

    /// Returns `false`: a program has run to its end.
    fn is_reusable(&self) -> bool {
        false
    }
}

fn command_line(name: &str, arguments: &Value) -> Vec<String> {
    let words = arguments.get("args").and_then(Value::as_array);
    let words = words.into_iter().flatten().filter_map(Value::as_str);
    std::iter::once(name).chain(words).map(str::to_owned).collect()
}

fn text<'a>(arguments: &'a Value, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns both streams, and the exit code if they do not show it.
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
