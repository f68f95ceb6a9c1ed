//! The contract of a component: by which exported functions haft lists and calls its tools. `guest` says what each
//! contract has to say, and `linked` lists them: `haft_world`, `act`, `mcp`, `command` and `typed`, which serves hooks too.

pub(crate) mod act;
pub(crate) mod answer;
pub(crate) mod bindings;
pub(crate) mod command;
pub(crate) mod floats;
pub(crate) mod guest;
pub(crate) mod haft_host;
pub(crate) mod haft_world;
pub(crate) mod linked;
pub(crate) mod mcp;
pub(crate) mod offers;
pub(crate) mod typed;
pub(crate) mod version;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The contract that a component keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contract {
    /// The `haft:plugin` world: a list of tools and a call of one of them.
    Plugin,
    /// The `act:tools` world of other hosts: a list of tools and a call, with arguments in CBOR.
    Act,
    /// `wasi:http/incoming-handler`, or `handler` of WASI 0.3: a whole MCP server, asked for its tools in process.
    Mcp,
    /// The `hook` world of `haft:plugin`: two typed functions, which are no tools.
    Hook,
    /// `wasi:cli/run`: a program with a `main`, which is one tool.
    Command,
    /// None of these: each function it exports is a tool.
    Typed,
}

/// One call, as every contract needs it.
pub(crate) struct Request {
    /// Identifies the call among the running ones.
    pub(crate) id: String,
    /// The name that the component itself has for the tool.
    pub(crate) tool: String,
    /// The arguments, checked against the tool's parameters.
    pub(crate) arguments: Arguments,
    /// Those texts among them that could be paths.
    pub(crate) paths: Vec<String>,
    /// Bytes that the answer may have.
    pub(crate) result_limit: u64,
}

/// The arguments of a call, kept in the one form that its contract hands on: they may have many megabytes.
pub(crate) enum Arguments {
    /// JSON text.
    Text(String),
    /// What is converted for the guest.
    Value(Value),
}

impl Arguments {
    /// `arguments` for a component of `contract`.
    pub(crate) fn new(contract: Contract, arguments: &Value) -> Self {
        if contract == Contract::Plugin {
            Self::Text(arguments.to_string())
        } else {
            Self::Value(arguments.clone())
        }
    }

    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Value(value) => Cow::Owned(value.to_string()),
        }
    }

    pub(crate) fn value(&self) -> Cow<'_, Value> {
        match self {
            // Written here, so it is JSON.
            Self::Text(text) => Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
            Self::Value(value) => Cow::Borrowed(value),
        }
    }
}

/// Bytes of memory that a value holds, more or less.
pub(crate) fn held(value: &Value) -> usize {
    let own = size_of::<Value>();
    own + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(held).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + held(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

impl std::fmt::Display for Contract {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plugin => "haft:plugin",
            Self::Act => "act:tools",
            Self::Mcp => "MCP over wasi:http",
            Self::Command => "wasi:cli/run",
            Self::Hook => "haft:plugin hook",
            Self::Typed => "typed functions",
        })
    }
}
