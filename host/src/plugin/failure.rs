//! Why a plugin cannot be loaded, and how a guest came to its end: one line for people and
//! models, whatever wasmtime says in ten.

use std::time::Duration;

use wasmtime::{Store, Trap};
use wasmtime_wasi::I32Exit;

use super::state::{State, bytes};
use crate::limit::Limits;

/// Why a component cannot be used as a plugin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The bytes cannot be had.
    #[error("cannot read component `{path}`: {error}")]
    Read {
        /// The file.
        path: String,
        /// The reason.
        error: std::io::Error,
    },
    /// Not a component at all.
    #[error("not a WebAssembly component: {0}")]
    NotAComponent(String),
    /// A core module: what `wasm32-wasip1` and `wasm32-unknown-unknown` make.
    #[error("a core WebAssembly module, not a component; build it for `wasm32-wasip2` or wrap it with `wasm-tools component new`")]
    CoreModule,
    /// A component for another world.
    #[error("exports no `haft:plugin/tools`: not built for the `haft:plugin` world")]
    WrongWorld,
    /// A component for another version of the world.
    #[error("built for `haft:plugin@{found}`, and this haft speaks {supported}; rebuild it against this haft's `wit/`")]
    WrongVersion {
        /// The version it was built for.
        found: String,
        /// The version spoken here.
        supported: &'static str,
    },
    /// It needs something that haft does not give.
    #[error("cannot be linked: {0}")]
    Link(String),
    /// Asked for its tools, it failed.
    #[error("cannot list its tools: {0}")]
    Listing(String),
    /// It lists what cannot be used.
    #[error("lists a tool that cannot be used: {0}")]
    Tool(String),
    /// haft itself failed.
    #[error("internal error: {0}")]
    Internal(String),
}

/// Why haft ended a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stop {
    /// The caller wants no answer any more.
    #[error("cancelled")]
    Cancelled,
    /// The time is over.
    #[error("out of time")]
    Deadline,
}

/// Characters of a guest's last words in an error.
const MAX_LAST_WORDS: usize = 300;

/// One line on how the guest of `store` came to its end.
pub(super) fn describe(error: &wasmtime::Error, store: &Store<State>, limits: &Limits) -> String {
    tracing::debug!(error = format!("{error:?}"), "guest ended");
    let state = store.data();
    let end = ending(error, state, limits);
    match last_words(&state.stderr.text()) {
        Some(words) => format!("{end} (stderr: {words})"),
        None => end,
    }
}

fn ending(error: &wasmtime::Error, state: &State, limits: &Limits) -> String {
    if let Some(stop) = error.downcast_ref::<Stop>() {
        return match stop {
            Stop::Cancelled => "was cancelled".into(),
            Stop::Deadline => timed_out(limits.time),
        };
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        // WASI 0.2 tells success from failure and nothing more.
        let how = if exit.0 == 0 { "as if all were well" } else { "with a failure" };
        return format!("exited {how} instead of answering");
    }
    if let Some(limit) = &state.budget.met {
        return format!("reached {limit}");
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => "exhausted its call stack".into(),
        Some(Trap::UnreachableCodeReached) => "panicked".into(),
        Some(trap) => format!("trapped: {}", trap.to_string().trim_start_matches("wasm trap: ")),
        None => host_refusal(error, limits),
    }
}

/// What ended in haft rather than in the guest. wasmtime has no types for its own limits.
fn host_refusal(error: &wasmtime::Error, limits: &Limits) -> String {
    let reason = one_line(&error.root_cause().to_string());
    if reason.contains("fuel") {
        format!("passed more than its result limit of {} at once", bytes(limits.result))
    } else if reason.contains("resource table") {
        "reached its limit of open files and streams".into()
    } else {
        format!("failed: {reason}")
    }
}

/// A limit that was met, with its name and value.
pub(super) fn timed_out(limit: Duration) -> String {
    format!("timed out after {limit:?}: reached its time limit")
}

/// A text without line breaks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The most telling of what a guest wrote before it died: a panic's place and message.
fn last_words(stderr: &str) -> Option<String> {
    let line = one_line(stderr);
    let start = line.find("panicked at").unwrap_or(0);
    // What Rust adds to every panic is of no use to whoever cannot set the guest's environment.
    let end = line.find("note: run with `RUST_BACKTRACE").filter(|end| *end >= start).unwrap_or(line.len());
    let words: String = line.get(start..end)?.trim_end().chars().take(MAX_LAST_WORDS).collect();
    (!words.is_empty()).then_some(words)
}
