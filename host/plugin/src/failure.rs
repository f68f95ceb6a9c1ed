//! The errors of loading a plugin, and the ends of guests, each in one line for people and models instead of
//! wasmtime's chain of errors.

use std::fmt::Write;

use wasmtime::component::ResourceTableError;
use wasmtime::{Store, Trap};
use wasmtime_wasi::I32Exit;

use crate::call::Stop;
use crate::debug::frame::{Frame, end_of};
use crate::debug::symbols::{MAX_FRAMES, Stack};
use crate::debug::words::{self, LastWords};
use crate::instance::allocator::GUEST_STACK;
use crate::instance::state::{ExceededLimit, GuestState, MAX_HANDLES, MAX_TABLE_ELEMENTS};
use crate::wasi::capability::MAX_RESOURCES;
use haft_core::limit::Limits;
use haft_core::net::one_line;

/// The reason why a component cannot be used as a plugin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read component `{path}`: {error}")]
    Read {
        /// The file.
        path: String,
        /// The reason.
        error: std::io::Error,
    },
    /// The file is not a component.
    #[error("not a WebAssembly component: {0}")]
    NotAComponent(String),
    /// A core module: what `wasm32-wasip1` and `wasm32-unknown-unknown` make.
    #[error(
        "a core WebAssembly module without a `main`, not a component; build it for `wasm32-wasip2` or wrap it with `wasm-tools component new`"
    )]
    CoreModule,
    /// The core module is a program, but not for WASI preview 1.
    #[error("a core WebAssembly module that cannot be adapted from WASI preview 1: {0}")]
    Adapt(String),
    /// The file has more sections and functions than this.
    #[error("has more than {0} sections and functions")]
    TooMany(usize),
    /// A component that offers nothing to call.
    #[error("exports no function that can be a tool{0}")]
    Nothing(String),
    /// A component for another version of the world.
    #[error("built for `{world}@{found}`; this haft supports {supported}; rebuild it against that version")]
    WrongVersion {
        /// The world for which the component was built.
        world: &'static str,
        /// The version that the component was built for.
        found: String,
        /// The version that haft supports.
        supported: &'static str,
    },
    /// The component imports a function or interface that haft does not provide.
    #[error("imports {0}, which this haft does not provide; {way}", way = way_around(.0))]
    Import(String),
    /// An import or export has another type than expected.
    #[error("cannot be linked: {0}")]
    Link(String),
    /// The listing of the tools failed.
    #[error("cannot list its tools: {0}")]
    Listing(String),
    /// The component serves HTTP, but not MCP.
    #[error("serves HTTP (`wasi:http`), but is not an MCP server: {0}; {way}", way = HTTP_WAY)]
    NotMcp(String),
    /// The component lists an invalid tool.
    #[error("lists a tool that cannot be used: {0}")]
    Tool(String),
    /// The component offers an invalid prompt or resource.
    #[error("offers a prompt or resource that cannot be used: {0}")]
    Offer(String),
    /// The file is no longer the component whose tools were listed.
    #[error("the component has changed since haft started; restart haft")]
    Changed,
    /// The component differs from the pinned one.
    #[error("the component differs from its pin in program.lock")]
    Pinned,
    /// haft itself failed.
    #[error("internal error: {0}")]
    Internal(String),
}

impl LoadError {
    /// Returns the error for bytes that are not a component: by their first bytes, or else the parser's `message`.
    pub(super) fn not_a_component(bytes: &[u8], message: impl FnOnce() -> String) -> Self {
        Self::NotAComponent(match bytes {
            [] => "the file is empty".into(),
            bytes if !bytes.starts_with(b"\0asm") => "it does not begin with the bytes `\\0asm`".into(),
            _ => message(),
        })
    }

    pub(super) fn nothing(exports: &[&str]) -> Self {
        let shown: Vec<String> = exports.iter().take(MAX_SHOWN).map(|name| format!("`{name}`")).collect();
        let more = if exports.len() > MAX_SHOWN { ", …" } else { "" };
        Self::Nothing(match shown.as_slice() {
            [] => String::new(),
            shown => format!(", only {}{more}", shown.join(", ")),
        })
    }

    /// Returns the error of a failed link. wasmtime has no type for a missing import, and describes it in many
    /// words.
    pub(super) fn link(error: &wasmtime::Error) -> Self {
        let text = one_line(&format!("{error:#}"));
        missing_import(&text).map_or(Self::Link(text), Self::Import)
    }
}

const MAX_SHOWN: usize = 5;

/// Returns "`function` of `interface`" if that import is missing.
fn missing_import(text: &str) -> Option<String> {
    let rest = text.strip_prefix("component imports ")?;
    let mut quoted = rest.strip_suffix("implementation is missing")?.split('`').skip(1).step_by(2);
    let interface = quoted.next()?;
    Some(quoted.next().map_or_else(|| format!("`{interface}`"), |name| format!("`{name}` of `{interface}`")))
}

/// An answer that exceeds the limit of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("answer too long")]
pub(super) struct TooLong(pub(super) u64);

/// The end of a guest.
#[derive(Debug)]
pub(super) struct End {
    /// The failure, as text after the guest's name.
    what: String,
    pub(super) limit: Option<Limit>,
    words: Option<Box<LastWords>>,
    /// The end of the guest's standard error, if that does not contain the failure.
    stderr: Option<String>,
    pub(super) stack: Stack,
}

/// A limit that the user can raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Memory,
    Time,
    /// The limit of the answer, which had this many bytes, or more.
    Result(u64),
    Disk,
}

impl Limit {
    /// Returns the remedy: the line of program.toml that doubles the limit or, with a margin, fits the answer that
    /// was too long. Without such a line, returns the reason.
    pub(super) fn raised(self, limits: &Limits) -> Result<String, Option<String>> {
        match self {
            Self::Memory => size("memory", limits.memory.saturating_mul(2), Limits::MAX_MEMORY).ok_or(None),
            Self::Disk => size("disk", limits.disk.saturating_mul(2), Limits::MAX_DISK).ok_or(None),
            Self::Result(length) => {
                let proposed = with_spare(length).max(limits.result.saturating_mul(2));
                let most = bytes(Limits::MAX_RESULT);
                let none =
                    || format!("the limit of an answer is {most}: write to a file, or answer in parts");
                size("result", proposed, Limits::MAX_RESULT).ok_or_else(|| Some(none()))
            }
            Self::Time => {
                let doubled =
                    limits.time.checked_mul(2).filter(|time| *time <= Limits::MAX_TIME).ok_or(None)?;
                let whole = doubled.subsec_nanos() == 0;
                Ok(if whole {
                    format!("time = \"{}s\"", doubled.as_secs())
                } else {
                    format!("time = \"{}ms\"", doubled.as_millis())
                })
            }
        }
    }
}

pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.into_iter().find(|(_, shift)| count >> shift << shift == count && count >> shift > 0);
    unit.map_or_else(|| format!("{count} bytes"), |(name, shift)| format!("{} {name}", count >> shift))
}

/// Returns the line that allows `proposed` bytes, unless that exceeds `most`.
fn size(name: &str, proposed: u64, most: u64) -> Option<String> {
    let written = bytes(proposed).replace(" bytes", "B").replace(' ', "");
    (proposed <= most).then(|| format!("{name} = \"{written}\""))
}

/// Returns a length and an eighth of it in complete KiB or MiB, because the next answer may be longer.
fn with_spare(length: u64) -> u64 {
    let unit = if length < 1 << 20 { 1 << 10 } else { 1 << 20 };
    length.saturating_add(length / 8).div_ceil(unit).saturating_mul(unit)
}

impl End {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), limit: None, words: None, stderr: None, stack: Stack::default() }
    }

    pub(super) fn too_long(what: impl Into<String>, length: u64) -> Self {
        Self::at_limit(what, Limit::Result(length))
    }

    fn at_limit(what: impl Into<String>, limit: Limit) -> Self {
        Self { limit: Some(limit), ..Self::new(what) }
    }

    /// Returns the failure, the author's source line, and the guest's message; then one line for each stack frame.
    /// `found` are the frames of the addresses, innermost first.
    pub(super) fn told(&self, found: &[Frame]) -> String {
        let said =
            self.words.as_ref().map(|words| words.frames.as_slice()).filter(|frames| !frames.is_empty());
        let (reason, found) = reason(found);
        let frames = said.unwrap_or(found);
        let of_stack = || frames.iter().find_map(|frame| frame.place.as_ref());
        let words = self.words.as_deref();
        let place = words.and_then(LastWords::place).or_else(of_stack);
        let place = place.or_else(|| words.and_then(|words| words.place.as_ref()));
        let mut text = self.what.clone();
        // Writing to a `String` cannot fail.
        if let Some(place) = place {
            let _ = write!(text, " at {place}");
        }
        let message = words.map(|words| words.message.as_str()).filter(|message| !message.is_empty());
        if let Some(message) = message.or(reason) {
            let _ = write!(text, ": {message}");
        }
        if let Some(stderr) = &self.stderr {
            let _ = write!(text, " (stderr: {stderr})");
        }
        for frame in frames.iter().take(MAX_FRAMES).filter(|_| frames.len() > 1) {
            let _ = write!(text, "\n  at {frame}");
        }
        text
    }
}

/// Returns the reason why a check of clang ended the program, and the surrounding functions. clang writes the
/// reason into the DWARF as the name of a called function:
/// `__clang_trap_msg$Undefined Behavior Sanitizer$Alignment, null, or object-size error`.
fn reason(found: &[Frame]) -> (Option<&str>, &[Frame]) {
    let told = found.split_first().and_then(|(first, around)| {
        let (_, reason) = first.function.strip_prefix("__clang_trap_msg$")?.rsplit_once('$')?;
        // clang has one text for three checks, of which usually one applies.
        let is_pointer = reason == "Alignment, null, or object-size error";
        Some((Some(if is_pointer { "a null or misaligned pointer" } else { reason }), around))
    });
    told.unwrap_or((None, found))
}

/// Maximum number of characters of a guest's standard error in an error.
const MAX_STDERR_EXCERPT: usize = 300;

pub(super) fn describe(error: &wasmtime::Error, store: &Store<GuestState>) -> End {
    tracing::debug!(error = format!("{error:?}"), "guest ended");
    let state = store.data();
    let mut end = ending(error, state, &state.shared.call.limits, store.hostcall_fuel());
    let stderr = state.stdio.stderr.text();
    (end.stack, end.words) = (Stack::of(error), words::read(&stderr).map(Box::new));
    match &end.words {
        Some(words) if !words.is_panic && end.what == PANICKED => end.what = "failed".into(),
        Some(_) => {}
        None => end.stderr = stderr_excerpt(&stderr),
    }
    end
}

/// The meaning of an `unreachable` instruction, with which languages end a program that cannot continue.
const PANICKED: &str = "panicked";

fn ending(error: &wasmtime::Error, state: &GuestState, limits: &Limits, transfer: usize) -> End {
    if let Some(stop) = error.downcast_ref::<Stop>() {
        return match stop {
            Stop::Cancelled => End::new("was cancelled"),
            Stop::Deadline => {
                let what = format!("timed out after {:?}: reached its time limit", limits.time);
                End::at_limit(what, Limit::Time)
            }
        };
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        // In WASI 0.2 an exit code is success or failure, without a number.
        let how = if exit.0 == 0 { "with success" } else { "with a failure" };
        return End::new(format!("exited {how} instead of answering"));
    }
    if let Some(TooLong(read)) = error.downcast_ref() {
        let (shown, result) = (bytes(*read), bytes(limits.result));
        return End::too_long(format!("returned more than {shown}; its result limit is {result}"), *read);
    }
    match (state.budget.exceeded, error.downcast_ref::<Trap>()) {
        (Some(ExceededLimit::Memory), _) => {
            End::at_limit(format!("reached its memory limit of {}", bytes(limits.memory)), Limit::Memory)
        }
        (Some(ExceededLimit::Tables), _) => {
            End::new(format!("reached its limit of {MAX_TABLE_ELEMENTS} table entries"))
        }
        (None, Some(trap)) => End::new(trapped(*trap)),
        (None, None) => host_refusal(error, limits, transfer),
    }
}

fn trapped(trap: Trap) -> String {
    match trap {
        Trap::StackOverflow => format!("exhausted its call stack of {}", bytes(GUEST_STACK as u64)),
        Trap::UnreachableCodeReached => PANICKED.into(),
        Trap::AsyncDeadlock => "waits for an event that cannot happen".into(),
        // Compilers of C-like languages put their own stack at the bottom of memory.
        Trap::MemoryOutOfBounds => "trapped: out of bounds memory access, possibly a stack overflow".into(),
        trap => format!("trapped: {}", trap.to_string().trim_start_matches("wasm trap: ")),
    }
}

/// Returns the failure if haft ended the call, not the guest. wasmtime has no type for its own limits.
fn host_refusal(error: &wasmtime::Error, limits: &Limits, transfer: usize) -> End {
    let reason = one_line(&error.root_cause().to_string());
    if reason.contains("fuel allocated for hostcalls") {
        let (shown, result) = (bytes(transfer as u64), bytes(limits.result));
        let line = format!("passed more than {shown} to haft at once; its result limit is {result}");
        End::too_long(line, transfer as u64)
    } else if reason.contains("handle limit exceeded") {
        End::new(format!("reached its limit of {MAX_HANDLES} resources, streams and tasks"))
    } else if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        End::new(format!("reached its limit of {MAX_RESOURCES} open files and streams"))
    } else {
        End::new(format!("failed: {reason}"))
    }
}

fn stderr_excerpt(stderr: &str) -> Option<String> {
    // The reader cannot set the guest's environment.
    let excerpt =
        one_line(stderr.split("note: run with `RUST_BACKTRACE").next().unwrap_or(stderr).trim_end());
    (!excerpt.is_empty()).then(|| end_of(&excerpt, MAX_STDERR_EXCERPT))
}

/// Beginnings of interfaces, and the way out. The first that fits is taken.
const WAYS: &[(&str, &str)] = &[
    (
        "fermyon:spin/",
        "this interface belongs to Spin: use `wasi:keyvalue`, `wasi:config` or `wasi:http` instead (Rust: \
         `wstd` or `std`, not `spin-sdk`)",
    ),
    ("spin:", "this interface belongs to Spin: use `wasi:keyvalue`, `wasi:config` or `wasi:http` instead"),
    ("fastly:", "this interface belongs to Fastly: use `wasi:http` instead"),
    (
        "wasmcloud:",
        "this interface belongs to wasmCloud: use `wasi:keyvalue`, `wasi:config` or `wasi:http` instead",
    ),
    ("wasi:blobstore/", "store files in the directory `/state` instead (`state = \"10MiB\"` in the grant)"),
    ("wasi:messaging/", "haft has no messaging between components: export a function instead"),
    ("wasi:sql/", "connect to a database with `wasi:sockets` instead"),
    ("wasi:nn/", "haft runs no models for components: call a server with `wasi:http` instead"),
    ("haft:plugin/", "rebuild it against `wit/` of this haft"),
    ("wasi:", "rebuild it for WASI 0.2 (`wasm32-wasip2`), or for the released WASI 0.3"),
];

const COMPOSE: &str = "compose it with a component that exports the interface (`wac plug`), or build it \
    without";

fn way_around(import: &str) -> &'static str {
    let interface = import.rsplit(" of ").next().unwrap_or(import).trim_start_matches('`');
    WAYS.iter().find(|(beginning, _)| interface.starts_with(beginning)).map_or(COMPOSE, |(_, way)| way)
}

/// The way out for a component that serves HTTP and not MCP.
const HTTP_WAY: &str = "a plugin exports functions, `wasi:cli/run` or an MCP server: export its handler as a \
                               function, or serve MCP at `/mcp`";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debug::frame::Place;

    #[test]
    fn an_end_names_the_place_first_and_then_what_was_said() {
        let frame = |function: &str, line| Frame {
            function: function.into(),
            place: Place::new("src/plugin.c", line),
        };
        let end = End::new("panicked");
        assert_eq!(end.told(&[]), "panicked");
        assert_eq!(end.told(&[frame("f", 7)]), "panicked at src/plugin.c:7");
        let inlined =
            [frame("__clang_trap_msg$Undefined Behavior Sanitizer$null", 0), frame("f", 7), frame("g", 9)];
        let told = "panicked at src/plugin.c:7: null\n  at f (src/plugin.c:7)\n  at g (src/plugin.c:9)";
        assert_eq!(end.told(&inlined), told);
        // A library's location is not in the author's files.
        let words = words::read("panicked at /rustc/x/library/core/src/a.rs:1:1:\nbad").map(Box::new);
        let end = End { words, ..End::new("panicked") };
        assert_eq!(end.told(&[frame("f", 7)]), "panicked at src/plugin.c:7: bad");
        assert_eq!(end.told(&[]), "panicked at /rustc/x/library/core/src/a.rs:1: bad");
    }

    /// C06: the proposed line admits the answer; without such a line, the reason is given.
    #[test]
    fn the_proposed_limit_admits_the_answer() {
        let limits = Limits::default();
        let proposed = |length| Limit::Result(length).raised(&limits);
        assert_eq!(proposed(10 << 20).unwrap(), "result = \"12MiB\"");
        assert_eq!(proposed((1 << 20) + 1).unwrap(), "result = \"2MiB\"", "never less than twice as much");
        let none = proposed(Limits::MAX_RESULT).unwrap_err().unwrap();
        assert!(none.starts_with("the limit of an answer is"), "{none}");
        let full = Limits { memory: Limits::MAX_MEMORY, ..limits };
        assert_eq!(Limit::Memory.raised(&full), Err(None));
    }

    #[test]
    fn the_way_is_that_of_the_interface() {
        for (import, expected) in [
            ("`send` of `fermyon:spin/redis@2.0.0`", "belongs to Spin"),
            ("`wasmcloud:bus/lattice@1.0.0`", "belongs to wasmCloud"),
            ("`wasi:io/poll@0.3.0-rc-2025-09-16`", "WASI 0.2"),
            ("`f` of `haft:plugin/host@0.2.0`", "this haft"),
            ("`f` of `acme:weather/report@1.0.0`", "wac plug"),
        ] {
            assert!(way_around(import).contains(expected), "{import}: {}", way_around(import));
        }
    }
}
