//! What gates and workers say to each other, as JSON. Unknown fields are passed over; every text from outside is bounded
//! by the size of a message. No message holds a right.

use std::borrow::Cow;

use haft_core::call::{Hints, ToolDef, ToolResult};
use haft_core::encoding::hex;
use haft_core::event::{Event, Events};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::{LinkError, unusable};
use super::passenger::About;

/// A worker: its name, which its user of the server may be held to, and which of those that had it.
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

/// What the name of a worker's connection begins with; its instance follows.
pub(crate) const CONNECTION: &str = "haft-worker:";

/// What the subject ends with on which something is told during a call.
pub(crate) const TOLD: &str = "t";

/// A call, gate to worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request<'a> {
    /// Names the call among all, for claims: 32 hexadecimal digits.
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    pub(crate) tool: Cow<'a, str>,
    /// The digest of the definition that the caller saw.
    pub(crate) definition: Cow<'a, str>,
    /// When it was sent, in milliseconds since 1970.
    pub(crate) sent: u64,
    /// Whether anybody listens to what happens meanwhile.
    #[serde(default)]
    pub(crate) told: bool,
    /// Whether a person approved of this call where it was made.
    #[serde(default)]
    pub(crate) approved: bool,
    #[serde(default)]
    pub(crate) about: Cow<'a, About>,
    pub(crate) arguments: Cow<'a, Value>,
}

/// What comes back of a call, worker to gate; the last word on it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// It was answered; how many places of the worker are in use without it.
    Answer {
        /// The answer.
        result: ToolResult,
        /// Places in use.
        busy: u32,
    },
    /// It did not run: all places are in use.
    Full,
    /// It did not run and may be made elsewhere, and why.
    Unrun(String),
}

/// What a gate asks a worker besides calls.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// What it has.
    Tools,
    /// Nobody wants the answer to this call any more.
    Cancel(String),
    /// What became of this call.
    Status(String),
}

/// What a worker knows of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// It runs.
    Running,
    /// It was answered; the answer is sent once more.
    Answered,
    /// It was never seen, or too long ago.
    Unknown,
}

/// That a worker lives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub(crate) worker: WorkerId,
    pub(crate) labels: Vec<String>,
    /// Calls that it runs at one time.
    pub(crate) places: u32,
    /// Of those in use.
    pub(crate) busy: u32,
    /// Whether it ends as soon as what it runs has: it takes no call any more.
    #[serde(default)]
    pub(crate) leaving: bool,
    /// Another number says that it has other tools than before.
    #[serde(default)]
    pub(crate) revision: u64,
}

/// A tool of a worker, and what it says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Known {
    /// What models are told.
    pub def: ToolDef,
    /// What [`ToolDef`] leaves out of prompts.
    pub(crate) title: Option<String>,
    pub(crate) hints: Hints,
    pub(crate) output: Option<Value>,
    /// The digest of all of it, and of the component.
    pub definition: String,
    /// Whether calls of it change nothing, by its grant there: such a call may be made again.
    pub(crate) reads: bool,
    /// SHA-256 of the component, where it is one.
    pub(crate) component: Option<String>,
}

impl Known {
    /// The whole definition.
    pub fn definition_of(&self) -> ToolDef {
        let (title, hints, output) = (self.title.clone(), self.hints, self.output.clone());
        ToolDef { title, hints, output, ..self.def.clone() }
    }
}

/// Something that happened during a call, worker to gate: what [`Event`] says of calls.
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
    /// What is passed on of an event, if it is.
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

    /// Tells it of the call `call` of this machine.
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

/// As bytes. Nothing that is sent has keys that are no texts, which alone could fail.
pub(crate) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_default()
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// As many random hexadecimal digits as name one among all and cannot be guessed: 128 bits.
pub(crate) fn random_name() -> Result<String, LinkError> {
    let bytes = haft_core::random::bytes::<16>();
    bytes.map(|bytes| hex(&bytes)).map_err(|error| unusable("nothing can be named", &error))
}
