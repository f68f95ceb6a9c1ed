//! The events of a run, in one stream, which the terminal, the log and tests read. The emitting code does not know
//! its listeners.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::call::{ToolCall, ToolResult};

/// An event of a run.
#[derive(Clone, Debug)]
pub enum Event {
    /// A component is being compiled, which takes a while and happens once for each version.
    Compiling {
        /// The plugin.
        plugin: String,
        /// The size of the component in bytes.
        bytes: u64,
    },
    /// The component was compiled. Only after [`Compiling`](Self::Compiling).
    Compiled {
        /// The plugin.
        plugin: String,
        /// The duration of the compilation.
        duration: Duration,
    },
    /// The conversation exceeds its budget, so that its beginning is not sent to the model.
    Trimmed {
        /// The number of messages omitted at the beginning.
        left_out: usize,
    },
    /// The beginning of the conversation was omitted and replaced by a summary.
    Summarised {
        /// The number of messages omitted at the beginning.
        messages: usize,
        /// The model that wrote the summary.
        model: String,
    },
    /// A model was asked for its next turn.
    Asked {
        /// The model's name in the request.
        model: String,
    },
    /// A piece of the model's text, as it arrives. The pieces since [`Asked`](Self::Asked) or
    /// [`Retrying`](Self::Retrying), joined, are the text of its turn.
    Said(String),
    /// A piece of the model's thinking, or of its vendor's summary. For display alone: it is no part of the answer.
    Thought(String),
    /// The request for a turn failed and is repeated. Text and thinking since [`Asked`](Self::Asked) do not count.
    Retrying {
        /// The reason, in one line.
        reason: String,
        /// The wait before the next attempt.
        delay: Duration,
    },
    /// Files of the conversation are omitted from the request.
    NotShown {
        /// The files and the reason, in one line.
        reason: String,
    },
    /// A call went to a tool.
    Started(ToolCall),
    /// The tool of a call is about to run: it was found, the arguments are valid, and a person has approved the
    /// call if that is required.
    Running {
        /// The id of the call.
        call: String,
    },
    /// A child process wrote to its standard output.
    Stdout {
        /// The id of the call.
        call: String,
        /// The output; invalid UTF-8 is replaced.
        chunk: String,
    },
    /// A child process wrote to its standard error.
    Stderr {
        /// The id of the call.
        call: String,
        /// The output; invalid UTF-8 is replaced.
        chunk: String,
    },
    /// A tool sent a message to the person during a call.
    Info {
        /// The id of the call.
        call: String,
        /// The message.
        message: String,
    },
    /// A tool reported its progress.
    Progress {
        /// The id of the call.
        call: String,
        /// The amount done.
        done: f64,
        /// The total amount, if known.
        total: Option<f64>,
        /// The current activity; may be empty.
        message: String,
    },
    /// A piece of the answer of a running tool, as it arrives. Pieces of text, joined, are the text of the answer;
    /// any other value is a line. For display alone: the complete answer follows at the end.
    Partial {
        /// The id of the call.
        call: String,
        /// The piece.
        text: String,
    },
    /// haft allowed or refused a network access of a call. Emitted after the guest has ended, in the order of the
    /// decisions.
    Decided {
        /// The id of the call.
        call: String,
        /// The decision, in one line: `allowed GET https://api.test:8443 (93.184.215.14)`. Contains no path, query
        /// or header, which may contain secrets.
        decision: String,
    },
    /// An event of an agent that was called as a tool.
    Within {
        /// The agent.
        agent: String,
        /// The id of the call that the agent answers.
        parent: String,
        /// The event. Its call ids are those of the agent.
        event: Box<Event>,
    },
    /// A call was answered.
    Completed {
        /// The call.
        call: ToolCall,
        /// The answer.
        result: ToolResult,
        /// The time from dispatch to answer.
        duration: Duration,
    },
}

/// The destination of events. Cheap to clone; without a listener, emitting costs nothing.
#[derive(Clone, Default)]
pub struct Events {
    sink: Option<Arc<Sink>>,
    /// Whether the listener receives [`Event::Started`] and [`Event::Completed`].
    with_calls: bool,
}

type Sink = dyn Fn(&Event) + Send + Sync;

impl Events {
    /// Returns events without a listener.
    pub fn none() -> Self {
        Self::default()
    }

    /// Sends every event to `sink`, in order, on the emitting thread. A sink must not block: the call waits for it.
    pub fn to(sink: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { sink: Some(Arc::new(sink)), with_calls: true }
    }

    /// Sends only the events during calls, for a caller that has the calls and their answers already: arguments and
    /// answers are not copied.
    pub fn during_calls(sink: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { with_calls: false, ..Self::to(sink) }
    }

    /// Returns whether there is a listener.
    pub fn has_listener(&self) -> bool {
        self.sink.is_some()
    }

    /// Emits the start or the end of a call, if the listener receives them.
    pub(crate) fn emit_call(&self, event: impl FnOnce() -> Event) {
        if self.with_calls {
            self.emit(event);
        }
    }

    /// Emits an event; `event` is called only if there is a listener.
    pub fn emit(&self, event: impl FnOnce() -> Event) {
        if let Some(sink) = &self.sink {
            sink(&event());
        }
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Events").field(&self.sink.is_some()).finish()
    }
}

// Events as JSON, for programs that follow a run. The format is stable: later versions only add kinds and keys.

impl Event {
    /// Returns the files omitted from a request and the reason, if the event reports that, here or within an agent.
    pub fn not_shown(&self) -> Option<&str> {
        match self {
            Self::NotShown { reason } => Some(reason),
            Self::Within { event, .. } => event.not_shown(),
            _ => None,
        }
    }

    /// Returns the event as an object whose member `event` is its kind. An event within an agent has `agent`, such
    /// as `reviewer/searcher`, and `parent`, the call of the calling agent.
    pub fn json(&self) -> Value {
        match self {
            Self::Compiling { plugin, bytes } => {
                json!({ "event": "compiling", "plugin": plugin, "bytes": bytes })
            }
            Self::Compiled { plugin, duration } => {
                json!({ "event": "compiled", "plugin": plugin, "duration_ms": milliseconds(*duration) })
            }
            Self::Trimmed { left_out } => json!({ "event": "trimmed", "left_out": left_out }),
            Self::Summarised { messages, model } => {
                json!({ "event": "summarised", "messages": messages, "model": model })
            }
            Self::Asked { model } => json!({ "event": "asked", "model": model }),
            Self::Said(text) => json!({ "event": "said", "text": text }),
            Self::Thought(text) => json!({ "event": "thought", "text": text }),
            Self::Retrying { reason, delay } => {
                json!({ "event": "retrying", "reason": reason, "delay_ms": milliseconds(*delay) })
            }
            Self::NotShown { reason } => json!({ "event": "not_shown", "reason": reason }),
            Self::Started(call) => json!({ "event": "started", "call": call }),
            Self::Running { call } => json!({ "event": "running", "id": call }),
            Self::Stdout { call, chunk } => json!({ "event": "stdout", "id": call, "text": chunk }),
            Self::Stderr { call, chunk } => json!({ "event": "stderr", "id": call, "text": chunk }),
            Self::Info { call, message } => json!({ "event": "info", "id": call, "message": message }),
            Self::Progress { call, done, total, message } => json!({
                "event": "progress", "id": call, "done": done, "total": total, "message": message,
            }),
            Self::Partial { call, text } => json!({ "event": "partial", "id": call, "text": text }),
            Self::Decided { call, decision } => {
                json!({ "event": "decided", "id": call, "decision": decision })
            }
            Self::Within { agent, parent, event } => within(agent, parent, event.json()),
            Self::Completed { call, result, duration } => json!({
                "event": "completed", "call": call, "result": result, "duration_ms": milliseconds(*duration),
            }),
        }
    }
}

fn within(agent: &str, parent: &str, mut event: Value) -> Value {
    if let Some(object) = event.as_object_mut() {
        let path = match object.get("agent").and_then(Value::as_str) {
            Some(inner) => format!("{agent}/{inner}"),
            None => agent.to_owned(),
        };
        object.insert("agent".into(), path.into());
        object.entry("parent").or_insert_with(|| parent.into());
    }
    event
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::call::{ToolCall, ToolResult};

    #[test]
    fn an_event_says_what_happened() {
        let call = ToolCall { id: "c1".into(), tool: "bash".into(), arguments: json!({ "command": "ls" }) };
        let result = ToolResult::error("no");
        let event = Event::Completed { call, result, duration: Duration::from_millis(7) };
        let expected = json!({
            "event": "completed",
            "call": { "id": "c1", "tool": "bash", "arguments": { "command": "ls" } },
            "result": { "content": "no", "is_error": true },
            "duration_ms": 7,
        });
        assert_eq!(event.json(), expected);
        let within = |agent: &str, parent: &str, event| Event::Within {
            agent: agent.into(),
            parent: parent.into(),
            event,
        };
        let inner = within("searcher", "c9", Box::new(Event::Said("x".into())));
        let expected = json!({ "event": "said", "text": "x", "agent": "reviewer/searcher", "parent": "c9" });
        assert_eq!(within("reviewer", "c1", Box::new(inner)).json(), expected);
        assert_eq!(Event::Said("a\n".into()).json(), json!({ "event": "said", "text": "a\n" }));
    }
}
