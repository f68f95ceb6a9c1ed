//! The messages between gates and workers, as JSON, and the data that travels with a call and is opaque to
//! the protocol. Unknown fields are ignored; every text from outside is bounded by the size of a message. No
//! message contains a right.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LinkError, unusable};
use haft_core::call::{Hints, ToolDef, ToolResult};
use haft_core::encoding::hex;
use haft_core::event::{Event, Events};
use haft_core::tool::{Context, Session};
use haft_core::trace::TraceParent;

/// A worker: its name, which the server may bind to its user, and the process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct WorkerId {
    pub(crate) name: String,
    pub(crate) instance: String,
}

impl std::fmt::Display for WorkerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name)
    }
}

/// The prefix of the name of a worker's connection; its instance follows.
pub(crate) const CONNECTION: &str = "haft-worker:";

/// The last part of the subject for events of a call.
pub(crate) const TOLD: &str = "t";

/// A call, from gate to worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request<'a> {
    /// The unique id of the call, for claims: 32 hexadecimal digits.
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    pub(crate) tool: Cow<'a, str>,
    /// The digest of the definition that the caller saw.
    pub(crate) definition: Cow<'a, str>,
    /// The time of sending, in milliseconds since 1970.
    pub(crate) sent: u64,
    /// Whether the gate wants events of the call.
    #[serde(default)]
    pub(crate) told: bool,
    /// Whether a person approved this call at the gate.
    #[serde(default)]
    pub(crate) approved: bool,
    #[serde(default)]
    pub(crate) about: Cow<'a, About>,
    pub(crate) arguments: Cow<'a, Value>,
}

/// The final message about a call, from worker to gate.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Answer {
        result: ToolResult,
        /// The number of used places of the worker, without this call.
        busy: u32,
    },
    /// The call did not run: all places are in use.
    Full,
    /// The call did not run and may run elsewhere, with the reason.
    Unrun(String),
}

/// A request of a gate to a worker, other than a call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    Tools,
    Cancel(String),
    Status(String),
}

/// The status of a call at its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Running,
    /// The call was answered; the answer is sent again.
    Answered,
    /// The call was never received, or too long ago.
    Unknown,
}

/// The heartbeat of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub(crate) worker: WorkerId,
    pub(crate) labels: Vec<String>,
    /// The maximum number of concurrent calls.
    pub(crate) places: u32,
    /// The number of used places.
    pub(crate) busy: u32,
    /// Whether the worker is shutting down: it takes no more calls.
    #[serde(default)]
    pub(crate) leaving: bool,
    /// Changes whenever the tools change.
    #[serde(default)]
    pub(crate) revision: u64,
}

/// A tool of a worker with its definition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Known {
    /// The definition that models see.
    pub def: ToolDef,
    /// The fields that the serialised [`ToolDef`] omits.
    pub(crate) title: Option<String>,
    pub(crate) hints: Hints,
    pub(crate) output: Option<Value>,
    /// The digest of the complete definition and of the component.
    pub definition: String,
    /// Whether calls change nothing, according to the grant at the worker: such a call may be repeated.
    pub(crate) reads: bool,
    /// The SHA-256 of the component, if the tool is one.
    pub(crate) component: Option<String>,
}

impl Known {
    /// Returns the complete definition.
    pub fn definition_of(&self) -> ToolDef {
        let (title, hints, output) = (self.title.clone(), self.hints, self.output.clone());
        ToolDef { title, hints, output, ..self.def.clone() }
    }
}

/// An event during a call, from worker to gate: the events of [`Event`] about calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    Stdout(String),
    Stderr(String),
    Info(String),
    Progress(f64, Option<f64>, String),
    Decided(String),
}

impl Told {
    /// Converts an event; `None` if it is not forwarded.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        Some(match event {
            Event::Stdout { chunk, .. } => Self::Stdout(chunk.clone()),
            Event::Stderr { chunk, .. } => Self::Stderr(chunk.clone()),
            Event::Info { message, .. } => Self::Info(message.clone()),
            Event::Progress { done, total, message, .. } => Self::Progress(*done, *total, message.clone()),
            Event::Decided { decision, .. } => Self::Decided(decision.clone()),
            _ => return None,
        })
    }

    /// Emits the event for the call `call` of this machine.
    pub(crate) fn emit(self, events: &Events, call: &str) {
        let call = call.to_owned();
        events.emit(|| match self {
            Self::Stdout(chunk) => Event::Stdout { call, chunk },
            Self::Stderr(chunk) => Event::Stderr { call, chunk },
            Self::Info(message) => Event::Info { call, message },
            Self::Progress(done, total, message) => Event::Progress { call, done, total, message },
            Self::Decided(decision) => Event::Decided { call, decision },
        });
    }
}

/// Serialises a message. Serialisation fails only for maps with keys other than strings, which no message
/// has.
pub(crate) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_default()
}

/// Returns the milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a unique name that cannot be guessed: 128 random bits in hexadecimal.
pub(crate) fn random_name() -> Result<String, LinkError> {
    let bytes = haft_core::random::bytes::<16>();
    bytes.map(|bytes| hex(&bytes)).map_err(|error| unusable("cannot create a name", &error))
}

/// The maximum size of the data in bytes: names and a trace context have some hundred.
pub(crate) const MAX_ABOUT: usize = 4096;

/// The data that travels with a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// The caller, as known to the gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) caller: Option<String>,
    /// Other data, such as `traceparent`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, String>,
}

/// The keys of W3C Trace Context.
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

impl About {
    /// Returns the data of an outgoing call: the caller's name and the trace's context.
    pub(crate) fn outgoing(context: &Context<'_>) -> Self {
        let mut about = Self { caller: context.caller.name().map(str::to_owned), ..Self::default() };
        if let Some(parent) = context.caller.trace().parent() {
            about.metadata.insert(PARENT.into(), parent.to_string());
            about.metadata.extend(parent.state.as_deref().map(|state| (STATE.into(), state.into())));
        }
        about
    }

    /// Returns the session of an incoming call, whose journal records the caller and whose trace continues.
    pub(crate) fn applied_to(&self, session: Session) -> Session {
        let said = |key| self.metadata.get(key).map(String::as_str);
        let trace = session.trace.within(|| TraceParent::parse(said(PARENT)?, said(STATE)));
        Session { trace, caller: self.caller.clone().map(Into::into), ..session }
    }

    pub(crate) fn fits(&self) -> bool {
        let metadata = self.metadata.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        metadata + self.caller.as_ref().map_or(0, String::len) <= MAX_ABOUT
    }
}
