//! A server that runs as a child process of haft, and the state of its pipes for error messages: the number of
//! unwritten bytes, and the beginning of the last line that was not a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use super::ServerError;
use super::calls::shortened;
use haft_core::grant::{Grant, RightsTable};
use haft_core::sync::Lock;
use haft_sandbox::confine::Refusal;
use haft_sandbox::service::Life;

/// Time limit for the exit of a server that closed its output.
pub(super) const DYING: Duration = Duration::from_secs(1);

/// A server that is a child.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) life: Life,
    pub(super) wire: Arc<Wire>,
    /// The rights of the child.
    pub(super) grant: Grant,
    /// The table of program.toml with these rights.
    pub(super) table: RightsTable,
}

/// Returns the end of a server that closed its output, or that was stopped because it read nothing.
pub(super) async fn ended(child: &Child) -> ServerError {
    let Child { life, wire, grant, table } = child;
    let was_stopped = life.is_stopping();
    let how = match timeout(DYING, life.ended()).await {
        _ if was_stopped => "it did not read its input and was stopped".to_owned(),
        Ok(how) => how.to_string(),
        Err(_) => {
            life.stop();
            "it closed its output and was stopped".to_owned()
        }
    };
    let words = life.last_words();
    // The last lines of standard error have more information.
    let noise = if words.is_empty() { wire.noise() } else { String::new() };
    let hints = Refusal::hints(&life.refused(), (grant, table), &words);
    ServerError::Ended { how: how + &noise, words, hints }
}

/// Maximum number of characters of a line that are shown.
const MAX_SHOWN: usize = 200;

/// Maximum number of queued bytes: two of the largest messages. A server that sends requests and reads no answers
/// gets no more of them, nor calls that it does not read.
const MAX_UNWRITTEN: usize = 32 << 20;

/// The state of the two pipes.
#[derive(Debug, Default)]
pub(super) struct Wire {
    unwritten: AtomicUsize,
    /// The last line that was no message, since the last answer.
    noise: Lock<Option<String>>,
}

impl Wire {
    /// Returns whether something waits for the child to read.
    pub(super) fn is_stuck(&self) -> bool {
        self.unwritten.load(Ordering::SeqCst) > 0
    }

    /// Returns the child's output that was not an answer, for the error message.
    pub(super) fn noise(&self) -> String {
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
