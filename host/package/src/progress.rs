//! How far a fetch has come, passed to a callback. Draws nothing.

use std::fmt;
use std::sync::Arc;

/// One thing to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Something begins: what, and how many bytes it has if that is known.
    Started {
        /// What is fetched, for messages. It is untrusted text: a terminal must neutralise it.
        what: &'a str,
        /// Bytes in all.
        total: Option<u64>,
    },
    /// Something is sent, of which no more is told than that it has begun and is over.
    Sending {
        /// Where to, for people.
        what: &'a str,
        /// Bytes in all.
        total: u64,
    },
    /// Bytes so far, of what began last.
    Received {
        /// Not only those since the last time.
        bytes: u64,
    },
    /// What began last is there, or has failed.
    Finished,
}

/// A listener.
type Listener = dyn Fn(Step<'_>) + Send + Sync;

/// Where steps are told; nowhere by default. Clones tell the same listener.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Listener>>);

impl Progress {
    /// Tells every step to `listener`, from any thread.
    pub fn new(listener: impl Fn(Step<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Tells a step.
    pub fn report(&self, step: Step<'_>) {
        if let Some(listener) = &self.0 {
            listener(step);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.0.is_some()).finish()
    }
}
