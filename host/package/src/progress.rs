//! Reports the progress of a fetch to a callback. Draws nothing.

use std::fmt;
use std::sync::Arc;

/// One step of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A download starts.
    Started {
        /// The source, for messages. It is untrusted text: a terminal must neutralise it.
        what: &'a str,
        /// The total size in bytes, if known.
        total: Option<u64>,
    },
    /// An upload starts; its progress is not reported.
    Sending {
        /// The target, for messages.
        what: &'a str,
        /// The total size in bytes.
        total: u64,
    },
    /// Part of the last started download was received.
    Received {
        /// All bytes received so far.
        bytes: u64,
    },
    /// The last started transfer succeeded or failed.
    Finished,
}

/// A callback for steps.
type Listener = dyn Fn(Step<'_>) + Send + Sync;

/// A handle to the callback; none by default. Clones share the callback.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Listener>>);

impl Progress {
    /// Reports every step to `listener`, from any thread.
    pub fn new(listener: impl Fn(Step<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Reports the first step of a transfer, and its end when the result is dropped.
    pub(crate) fn begin(&self, step: Step<'_>) -> Transfer<'_> {
        self.report(step);
        Transfer(self)
    }

    /// Reports a step.
    pub fn report(&self, step: Step<'_>) {
        if let Some(listener) = &self.0 {
            listener(step);
        }
    }
}

/// A running transfer.
pub(crate) struct Transfer<'a>(&'a Progress);

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        self.0.report(Step::Finished);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.0.is_some()).finish()
    }
}
