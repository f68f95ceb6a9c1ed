//! Everything observable, once. The terminal, the log and tests read the same stream; the code that emits does not
//! know its listeners.

mod json;

use std::sync::Arc;
use std::time::Duration;

use crate::call::{ToolCall, ToolResult};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A component is being compiled, and it takes a while: it happens once for each version of it.
    Compiling {
        /// The plugin.
        plugin: String,
        /// Bytes of the component.
        bytes: u64,
    },
    /// It was compiled. Only after [`Compiling`](Self::Compiling).
    Compiled {
        /// The plugin.
        plugin: String,
        /// How long it took.
        duration: Duration,
    },
    /// The model is not shown all of the conversation any more, which has outgrown its budget.
    Trimmed {
        /// How many messages at its beginning are left out.
        left_out: usize,
    },
    /// The same, and what is left out was summed up: a model reads that instead.
    Summarised {
        /// How many messages at its beginning are left out.
        messages: usize,
        /// The model that summed them up.
        model: String,
    },
    /// A model was asked for its next turn.
    Asked {
        /// The model's name as sent.
        model: String,
    },
    /// A piece of what the model says, as it arrives. The pieces since [`Asked`](Self::Asked) or
    /// [`Retrying`](Self::Retrying), joined, are the text of its turn.
    Said(String),
    /// A piece of what the model thinks, or of what its vendor tells of that. To be shown at most: it
    /// is no part of the answer.
    Thought(String),
    /// The model's turn did not come and is asked for again. What was said and thought since
    /// [`Asked`](Self::Asked) does not count.
    Retrying {
        /// Why, in one line.
        reason: String,
        /// How long haft waits first.
        delay: Duration,
    },
    /// Files are left out of what the model is shown, though the conversation has them.
    NotShown {
        /// Which, and why, in one line.
        reason: String,
    },
    /// A call went to a tool.
    Started(ToolCall),
    /// Its tool runs from now on: it was found, the arguments are right and, where a person has to
    /// approve, one has.
    Running {
        /// The call.
        call: String,
    },
    /// A child process wrote to its standard output.
    Stdout {
        /// The call it runs for.
        call: String,
        /// What it wrote; invalid UTF-8 replaced.
        chunk: String,
    },
    /// A child process wrote to its standard error.
    Stderr {
        /// The call it runs for.
        call: String,
        /// What it wrote; invalid UTF-8 replaced.
        chunk: String,
    },
    /// A tool told a person something about a call under way.
    Info {
        /// The call.
        call: String,
        /// The message.
        message: String,
    },
    /// A tool told how far it is.
    Progress {
        /// The call.
        call: String,
        /// How much is done.
        done: f64,
        /// How much there is, where known.
        total: Option<f64>,
        /// What is being done; may be empty.
        message: String,
    },
    /// A piece of the answer that a tool is still working on, as it arrives. Pieces of text, joined, are the answer's
    /// text; each other value is a line. To be shown at most: the whole answer comes at the end.
    Partial {
        /// The call.
        call: String,
        /// The piece.
        text: String,
    },
    /// haft allowed or refused something that a call wanted of the network. Told when the guest has
    /// ended, in the order of the decisions.
    Decided {
        /// The call.
        call: String,
        /// In one line: `allowed GET https://api.test:8443 (93.184.215.14)`. No path, query or
        /// header: they may hold secrets.
        decision: String,
    },
    /// Something happened while an agent that is itself a tool answered a call.
    Within {
        /// The agent.
        agent: String,
        /// The call that it answers.
        parent: String,
        /// What happened. The calls that it speaks of are the agent's.
        event: Box<Event>,
    },
    /// A call was answered.
    Completed {
        /// The call.
        call: ToolCall,
        /// The answer.
        result: ToolResult,
        /// From dispatch to answer.
        duration: Duration,
    },
}

/// Where events go. Cheap to clone; without a listener, emitting costs nothing.
#[derive(Clone, Default)]
pub struct Events {
    sink: Option<Arc<Sink>>,
    /// Whether the beginnings and ends of calls are heard too.
    with_calls: bool,
}

type Sink = dyn Fn(&Event) + Send + Sync;

impl Events {
    /// Events without a listener.
    pub fn none() -> Self {
        Self::default()
    }

    /// Sends every event to `sink`, in order, on the thread that emits it. A sink must not
    /// block: the call it hears of waits for it.
    pub fn to(sink: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { sink: Some(Arc::new(sink)), with_calls: true }
    }

    /// Only the events during calls, for a caller that has the calls and their answers anyway: arguments and answers
    /// are not copied for it.
    pub fn during_calls(sink: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { with_calls: false, ..Self::to(sink) }
    }

    /// Whether there is a listener.
    pub fn has_listener(&self) -> bool {
        self.sink.is_some()
    }

    /// Emits the beginning or end of a call, to the listeners that want these.
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
