//! The state of the connection to a child, for error messages: the number of unwritten bytes, and the beginning of
//! the last line that was not a message.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::calls::shortened;
use haft_core::sync::Lock;

/// Maximum number of characters of a line that are shown.
const MAX_SHOWN: usize = 200;

/// Maximum number of queued bytes: two of the largest messages. A server that sends requests and reads no answers
/// gets no more of them, nor calls that it does not read.
const MAX_UNWRITTEN: usize = 32 << 20;

/// The state of the two pipes.
#[derive(Debug, Default)]
pub(in super::super) struct Wire {
    unwritten: AtomicUsize,
    /// The last line that was no message, since the last answer.
    noise: Lock<Option<String>>,
}

impl Wire {
    /// Returns whether something waits for the child to read.
    pub(in super::super) fn is_stuck(&self) -> bool {
        self.unwritten.load(Ordering::SeqCst) > 0
    }

    /// Returns the child's output that was not an answer, for the error message.
    pub(in super::super) fn noise(&self) -> String {
        let noise = self.noise.lock();
        let describe = |line: &String| format!("; it wrote a line that is not JSON-RPC: `{line}`");
        noise.as_ref().map(describe).unwrap_or_default()
    }

    /// Adds bytes to the unwritten ones, if the limit permits. A single message is always accepted.
    pub(super) fn begin(&self, bytes: usize) -> bool {
        let before = self.unwritten.fetch_add(bytes, Ordering::SeqCst);
        let has_room = before == 0 || before.saturating_add(bytes) <= MAX_UNWRITTEN;
        if !has_room {
            self.written(bytes);
        }
        has_room
    }

    /// Uncounts bytes that were written, or never will be.
    pub(super) fn written(&self, bytes: usize) {
        self.unwritten.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Records a line that was not a message.
    pub(super) fn record_noise(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line.get(..MAX_SHOWN * 4).unwrap_or(line));
        let shown = shortened(line.chars().take(MAX_SHOWN).collect());
        *self.noise.lock() = Some(shown);
    }

    /// Clears the record after an answer.
    pub(super) fn clear_noise(&self) {
        *self.noise.lock() = None;
    }
}
