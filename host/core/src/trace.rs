//! Records the operations of a call as spans of a trace (W3C Trace Context). By default there is no recorder, and
//! nothing is allocated or computed. Spans hold names, numbers and outcomes: no argument, no answer and no error
//! text.

use std::fmt::{self, Debug};
use std::sync::Arc;

use crate::encoding::hex;
use crate::usage::Usage;

/// An operation with a duration.
#[derive(Clone, Debug)]
pub enum Operation<'a> {
    /// A client of haft's MCP server calls a tool.
    Served {
        /// The exposed name; empty if the tool does not exist.
        tool: &'a str,
        /// The id of the request.
        request: &'a str,
        /// The revision of MCP.
        protocol: Option<&'a str>,
        /// The transport of the client.
        over: Wire,
    },
    /// A tool runs for an agent, or for a user.
    Tool {
        /// The exposed name.
        tool: &'a str,
        /// The caller's id of the call.
        call: &'a str,
    },
    /// A tool of an MCP server is called.
    Remote {
        /// The name of the tool at the server.
        tool: &'a str,
        /// The name of the server in program.toml.
        server: &'a str,
        /// The transport of the server.
        over: Wire,
    },
    /// A model is asked for a turn.
    Chat {
        /// The provider of the API.
        provider: &'a str,
        /// The requested model.
        model: &'a str,
    },
    /// An agent works on a task.
    Agent {
        /// The agents on the way to the task; `None`: the user's agent.
        name: Option<&'a str>,
        /// The provider of the API.
        provider: &'a str,
        /// The requested model.
        model: &'a str,
    },
}

/// The transport between an MCP client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Standard streams of a child process.
    Streams,
    /// HTTP.
    Http,
}

/// The end of an operation.
#[derive(Clone, Debug, Default)]
pub struct Ended<'a> {
    /// The kind of error, one of few values such as `timeout`, if the operation failed.
    pub error: Option<&'a str>,
    /// The model that answered.
    pub model: Option<&'a str>,
    /// The reason why the model stopped.
    pub finish: Option<&'a str>,
    /// The usage.
    pub usage: Option<Usage>,
}

/// Converts a tool's answer: whether it is an error.
impl From<bool> for Ended<'_> {
    fn from(is_error: bool) -> Self {
        Self { error: is_error.then_some("tool_error"), ..Self::default() }
    }
}

/// A value that increases and decreases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// The maximum number of concurrent calls of a worker.
    Places,
    /// The number of calls that a worker runs.
    PlacesUsed,
    /// The number of calls that a gate has sent to workers or queued.
    CallsSent,
}

/// Reads a gauge; `None` after the end of its source.
pub type Reading = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// Receives spans and gauges.
pub trait Recorder: Debug + Send + Sync {
    /// Begins an operation, as a child of `parent`.
    fn begin(&self, operation: &Operation<'_>, parent: Option<&TraceParent>) -> Box<dyn Recording>;

    /// Reads `gauge` from now on, at each export. `reading` must not block.
    fn watch(&self, gauge: Gauge, reading: Reading);
}

/// A running operation.
pub trait Recording: Send + Sync {
    /// Returns the parent for child operations.
    fn as_parent(&self) -> TraceParent;

    /// Ends the operation.
    fn end(&mut self, ended: &Ended<'_>);
}

/// The recorder of operations and their parent. Clones are equivalent; by default there is no recorder.
#[derive(Clone, Debug, Default)]
pub struct Trace(Option<Target>);

#[derive(Clone, Debug)]
struct Target {
    recorder: Arc<dyn Recorder>,
    parent: Option<TraceParent>,
    /// Whether the call itself is recorded already.
    has_call: bool,
}

/// A running operation, if it is recorded. A drop records a cancellation.
#[must_use = "an operation that is dropped was cancelled"]
pub struct Span(Option<(Box<dyn Recording>, Arc<dyn Recorder>)>);

impl Trace {
    /// Records to `recorder`.
    pub fn to(recorder: Arc<dyn Recorder>) -> Self {
        Self(Some(Target { recorder, parent: None, has_call: false }))
    }

    /// Returns whether there is a recorder.
    pub fn is_told(&self) -> bool {
        self.0.is_some()
    }

    /// Returns a trace whose operations are children of `parent`'s result, if that is not `None`.
    #[must_use]
    pub fn within(&self, parent: impl FnOnce() -> Option<TraceParent>) -> Self {
        Self(self.0.as_ref().map(|target| Target { parent: parent(), ..target.clone() }))
    }

    /// Returns the parent of operations recorded here.
    pub fn parent(&self) -> Option<&TraceParent> {
        self.0.as_ref()?.parent.as_ref()
    }

    /// Reads a gauge from now on, if there is a recorder. `reading` must not block.
    pub fn watch(&self, gauge: Gauge, reading: impl Fn() -> Option<u64> + Send + Sync + 'static) {
        if let Some(target) = &self.0 {
            target.recorder.watch(gauge, Box::new(reading));
        }
    }

    /// Begins a call, and returns the trace for its parts. A call that is recorded already is not recorded again.
    pub(crate) fn begin_call<'a>(&self, operation: impl FnOnce() -> Operation<'a>) -> (Span, Self) {
        match &self.0 {
            None => (Span(None), Self(None)),
            Some(target) if target.has_call => {
                (Span(None), Self(Some(Target { has_call: false, ..target.clone() })))
            }
            Some(_) => {
                let span = self.begin(operation);
                let inside = span.inside();
                (span, inside)
            }
        }
    }

    /// Begins an operation. `operation` is only called if there is a recorder.
    pub fn begin<'a>(&self, operation: impl FnOnce() -> Operation<'a>) -> Span {
        Span(self.0.as_ref().map(|target| {
            (target.recorder.begin(&operation(), target.parent.as_ref()), target.recorder.clone())
        }))
    }
}

impl Span {
    /// Returns the trace for a call that this operation already records.
    pub fn of_call(&self) -> Trace {
        self.inner(true)
    }

    /// Returns the trace for the parts of this operation.
    pub fn inside(&self) -> Trace {
        self.inner(false)
    }

    fn inner(&self, has_call: bool) -> Trace {
        Trace(self.0.as_ref().map(|(recording, recorder)| Target {
            recorder: recorder.clone(),
            parent: Some(recording.as_parent()),
            has_call,
        }))
    }

    /// Ends the operation.
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

// The parent of an operation across processes: `traceparent` and `tracestate` (W3C Trace Context). Invalid values
// are ignored, as the recommendation requires.

/// The maximum number of forwarded characters of `tracestate`: the minimum of the recommendation.
const MAX_STATE: usize = 512;

/// The length of `traceparent` in version 0 in bytes; later versions are longer.
const LENGTH: usize = 55;

/// The parent of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace id; not all zero.
    pub trace: [u8; 16],
    /// The span id; not all zero.
    pub span: [u8; 8],
    /// Whether the trace is sampled.
    pub is_sampled: bool,
    /// The unmodified `tracestate` of other systems.
    pub state: Option<Arc<str>>,
}

impl TraceParent {
    /// Parses the two headers.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let bytes = traceparent.as_bytes();
        let version = bytes_of::<1>(bytes.get(..2)?)?[0];
        let is_long = version > 0 && bytes.get(LENGTH) == Some(&b'-');
        let is_whole = bytes.len() == LENGTH || is_long;
        let has_dashes = [2, 35, 52].iter().all(|at| bytes.get(*at) == Some(&b'-'));
        let trace = bytes_of::<16>(bytes.get(3..35)?)?;
        let span = bytes_of::<8>(bytes.get(36..52)?)?;
        let [flags] = bytes_of::<1>(bytes.get(53..LENGTH)?)?;
        let is_one = version != u8::MAX && is_whole && has_dashes && trace != [0; 16] && span != [0; 8];
        let state = tracestate.filter(|state| state.len() <= MAX_STATE && !state.is_empty());
        let state = state.filter(|state| state.bytes().all(|byte| (0x20..=0x7e).contains(&byte)));
        is_one.then(|| Self { trace, span, is_sampled: flags & 1 == 1, state: state.map(Into::into) })
    }

    /// Returns the parent as environment variables, for a process that is a part of the operation.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let state = self.state.as_deref().map(|state| ("TRACESTATE", state.to_owned()));
        std::iter::once(("TRACEPARENT", self.to_string())).chain(state)
    }
}

/// Writes `traceparent`.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", hex(&self.trace), hex(&self.span), u8::from(self.is_sampled))
    }
}

/// Parses `COUNT` bytes in lower-case hexadecimal.
fn bytes_of<const COUNT: usize>(text: &[u8]) -> Option<[u8; COUNT]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; COUNT];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    (text.len() == COUNT * 2).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_comes_back_as_it_was() {
        let parent = TraceParent::parse(GOOD, Some("a=1")).unwrap();
        assert!(parent.is_sampled && parent.state.as_deref() == Some("a=1"));
        assert_eq!(parent.to_string(), GOOD);
        let later = GOOD.replacen("00", "01", 1) + "-more";
        assert_eq!(TraceParent::parse(&later, None).unwrap().to_string(), GOOD);
    }

    #[test]
    fn what_is_not_in_order_is_not_there() {
        let zero = |at: std::ops::Range<usize>| {
            let mut text = GOOD.to_owned();
            text.replace_range(at.clone(), &"0".repeat(at.len()));
            text
        };
        for wrong in [
            "",
            "00",
            &GOOD.to_uppercase(),
            GOOD.get(..54).unwrap(),
            &format!("{GOOD}-more"),
            &GOOD.replacen("00", "ff", 1),
            &GOOD.replace('-', "_"),
            &zero(3..35),
            &zero(36..52),
            &GOOD.replace("0af", "0aé"),
        ] {
            assert_eq!(TraceParent::parse(wrong, None), None, "{wrong}");
        }
        let state = |state: &str| TraceParent::parse(GOOD, Some(state)).unwrap().state;
        assert_eq!((state(&"x".repeat(600)), state("a\r\nb"), state("")), (None, None, None));
    }
}
