//! The contract of a component: the exported functions by which haft lists and calls its tools. `guest` defines the
//! interface of a contract, and `linked` lists the contracts: `haft_world`, `act`, `mcp`, `command` and `typed`,
//! which also serves hooks.

pub(crate) mod act;
pub(crate) mod command;
pub(crate) mod floats;
pub(crate) mod guest;
pub(crate) mod haft_host;
pub(crate) mod haft_world;
pub(crate) mod linked;
pub(crate) mod mcp;
pub(crate) mod offers;
pub(crate) mod typed;

/// Rust types of `wit/`, made by wasmtime.
pub(crate) mod bindings {
    wasmtime::component::bindgen!({
        path: "contract",
        world: "plugin",
        imports: { default: tracing },
        exports: { default: async },
        ownership: Borrowing { duplicate_if_necessary: false },
    });
}

use serde::{Deserialize, Serialize};

/// The contract that a component keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contract {
    /// The `haft:plugin` world: functions to list tools and to call one.
    Plugin,
    /// The `act:tools` world of other hosts: a list of tools and a call, with arguments in CBOR.
    Act,
    /// `wasi:http/incoming-handler`, or `handler` of WASI 0.3: a complete MCP server, queried in this process.
    Mcp,
    /// The `hook` world of `haft:plugin`: two typed functions, which are no tools.
    Hook,
    /// `wasi:cli/run`: a program with a `main`, which is one tool.
    Command,
    /// No other contract: each exported function is a tool.
    Typed,
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
