//! Where the operations of a call are told as spans of a trace (W3C Trace Context), for whoever listens. By default nobody
//! does, and nothing is made or looked at. What is told are names, numbers and outcomes: no argument, no answer and no
//! error's words.

mod parent;

use std::fmt::Debug;
use std::sync::Arc;

pub use self::parent::TraceParent;
use crate::usage::Usage;

/// Something that is done, and takes time.
#[derive(Clone, Debug)]
pub enum Operation<'a> {
    /// A client of haft's MCP server calls a tool.
    Served {
        /// Its exposed name; empty for one that does not exist.
        tool: &'a str,
        /// The request's id.
        request: &'a str,
        /// The revision of MCP.
        protocol: Option<&'a str>,
        /// How the client is connected.
        over: Wire,
    },
    /// A tool runs for an agent, or for a person.
    Tool {
        /// Its exposed name.
        tool: &'a str,
        /// The caller's id of the call.
        call: &'a str,
    },
    /// A tool of an MCP server is called.
    Remote {
        /// The tool, as the server calls it.
        tool: &'a str,
        /// The server, as program.toml calls it.
        server: &'a str,
        /// How it is connected.
        over: Wire,
    },
    /// A model is asked for a turn.
    Chat {
        /// Whose API it is.
        provider: &'a str,
        /// The model that is asked.
        model: &'a str,
    },
    /// An agent works on a task.
    Agent {
        /// The agents that the task came through; `None`: the one that a person talks to.
        name: Option<&'a str>,
        /// Whose API it asks.
        provider: &'a str,
        /// The model that it asks.
        model: &'a str,
    },
}

/// How a client and a server of MCP are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// By a child's standard streams.
    Streams,
    /// By HTTP.
    Http,
}

/// How an operation ended.
#[derive(Clone, Debug, Default)]
pub struct Ended<'a> {
    /// In a few words of which there are few, such as `timeout`, where it failed.
    pub error: Option<&'a str>,
    /// The model that answered.
    pub model: Option<&'a str>,
    /// Why it stopped.
    pub finish: Option<&'a str>,
    /// What it used.
    pub usage: Option<Usage>,
}

/// Of a tool's answer: whether it is an error.
impl From<bool> for Ended<'_> {
    fn from(is_error: bool) -> Self {
        Self { error: is_error.then_some("tool_error"), ..Self::default() }
    }
}

/// A number that goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// Calls that a worker may run at one time.
    Places,
    /// Calls that a worker runs.
    PlacesUsed,
    /// Calls that a gate has at workers, or that wait there for a place.
    CallsSent,
}

/// Reads a gauge; `None` once there is nothing to read any more.
pub type Reading = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// Takes what is told.
pub trait Recorder: Debug + Send + Sync {
    /// An operation begins, as a part of `parent`.
    fn begin(&self, operation: &Operation<'_>, parent: Option<&TraceParent>) -> Box<dyn Recording>;

    /// Reads `gauge` from now on, whenever it sends what it has. `reading` must not wait.
    fn watch(&self, gauge: Gauge, reading: Reading);
}

/// An operation under way.
pub trait Recording: Send + Sync {
    /// What its parts are parts of.
    fn as_parent(&self) -> TraceParent;

    /// It ended.
    fn end(&mut self, ended: &Ended<'_>);
}

/// Where operations are told, and what they are parts of. Clones are the same; by default nobody is told.
#[derive(Clone, Debug, Default)]
pub struct Trace(Option<Told>);

#[derive(Clone, Debug)]
struct Told {
    recorder: Arc<dyn Recorder>,
    parent: Option<TraceParent>,
    /// Whether the call itself is told already, by whoever took it.
    has_call: bool,
}

/// An operation under way, if it is told. Dropped, it was cancelled.
#[must_use = "an operation that is dropped was cancelled"]
pub struct Span(Option<(Box<dyn Recording>, Arc<dyn Recorder>)>);

impl Trace {
    /// Tells `recorder`.
    pub fn to(recorder: Arc<dyn Recorder>) -> Self {
        Self(Some(Told { recorder, parent: None, has_call: false }))
    }

    /// Whether somebody is told.
    pub fn is_told(&self) -> bool {
        self.0.is_some()
    }

    /// The same, as a part of what `parent` makes, where it makes anything.
    #[must_use]
    pub fn within(&self, parent: impl FnOnce() -> Option<TraceParent>) -> Self {
        Self(self.0.as_ref().map(|told| Told { parent: parent(), ..told.clone() }))
    }

    /// What is told here is a part of this.
    pub fn parent(&self) -> Option<&TraceParent> {
        self.0.as_ref()?.parent.as_ref()
    }

    /// Has a gauge read from now on, where somebody is told. `reading` must not wait.
    pub fn watch(&self, gauge: Gauge, reading: impl Fn() -> Option<u64> + Send + Sync + 'static) {
        if let Some(told) = &self.0 {
            told.recorder.watch(gauge, Box::new(reading));
        }
    }

    /// A call begins, and where its parts are told. What is told already is not told again.
    pub(crate) fn begin_call<'a>(&self, operation: impl FnOnce() -> Operation<'a>) -> (Span, Self) {
        match &self.0 {
            None => (Span(None), Self(None)),
            Some(told) if told.has_call => (Span(None), Self(Some(Told { has_call: false, ..told.clone() }))),
            Some(_) => {
                let span = self.begin(operation);
                let inside = span.inside();
                (span, inside)
            }
        }
    }

    /// An operation begins. `operation` is only called where somebody is told.
    pub fn begin<'a>(&self, operation: impl FnOnce() -> Operation<'a>) -> Span {
        Span(
            self.0
                .as_ref()
                .map(|told| (told.recorder.begin(&operation(), told.parent.as_ref()), told.recorder.clone())),
        )
    }
}

impl Span {
    /// Where the parts of this operation are told; of a call, which is told by this already.
    pub fn of_call(&self) -> Trace {
        self.inner(true)
    }

    /// Where the parts of this operation are told.
    pub fn inside(&self) -> Trace {
        self.inner(false)
    }

    fn inner(&self, has_call: bool) -> Trace {
        Trace(self.0.as_ref().map(|(recording, recorder)| Told {
            recorder: recorder.clone(),
            parent: Some(recording.as_parent()),
            has_call,
        }))
    }

    /// The operation ended.
    pub fn end(mut self, ended: &Ended<'_>) {
        if let Some((mut recording, _)) = self.0.take() {
            recording.end(ended);
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some((recording, _)) = &mut self.0 {
            recording.end(&Ended { error: Some("cancelled"), ..Ended::default() });
        }
    }
}
