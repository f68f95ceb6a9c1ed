//! The state of a client that hangs up: it closes standard input, with or without requests under way, or its
//! process is gone. Records the state only; `stdio` decides what follows.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use haft_core::sync::Lock;
use tokio_util::sync::CancellationToken;

/// Whoever closes standard input so soon after the last request has written all of them at once (`printf …
/// | haft serve`) and waits for the answers. A client that means haft to end has done something else since.
const RECENT: Duration = Duration::from_millis(250);

/// The state of the client's pipes. Clones share it.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Hangup(Arc<HangupState>);

#[derive(Debug, Default)]
struct HangupState {
    /// When the last request was read.
    last_request: Lock<Option<Instant>>,
    /// From when on requests were read that a client waits for: set where it closed standard input right after
    /// one.
    since: OnceLock<Instant>,
    /// Standard input has ended.
    ended: CancellationToken,
    /// Nobody reads what is written.
    client_gone: CancellationToken,
    /// Everything that is waited for is answered.
    answered: CancellationToken,
}

impl Hangup {
    /// A request was read.
    pub(super) fn request_was_read(&self) {
        *self.0.last_request.lock() = Some(Instant::now());
    }

    /// Standard input has ended.
    pub(super) fn input_has_ended(&self) {
        let last = *self.0.last_request.lock();
        let since = Instant::now().checked_sub(RECENT);
        if let Some(since) = since.filter(|since| last.is_some_and(|last| last > *since)) {
            let _ = self.0.since.set(since);
        }
        self.0.ended.cancel();
    }

    /// Nobody reads what is written.
    pub(super) fn client_is_gone(&self) {
        self.0.client_gone.cancel();
        self.0.ended.cancel();
    }

    /// Records that every request that the client waits for is answered, after the end of standard input.
    pub(super) fn all_is_answered(&self) {
        self.0.answered.cancel();
    }

    /// Whether the client waits for answers, once standard input has ended.
    pub(in super::super) fn is_waiting(&self) -> bool {
        self.0.since.get().is_some() && !self.0.client_gone.is_cancelled()
    }

    /// The requests from this time on are those that the client waits for; nothing where it waits for none.
    pub(super) fn waited_for_since(&self) -> Option<Instant> {
        self.0.since.get().copied()
    }

    /// Ends with standard input, or when the client is gone.
    pub(in super::super) async fn ended(&self) {
        self.0.ended.cancelled().await;
    }

    /// Ends when the client no longer reads.
    pub(in super::super) async fn client_gone(&self) {
        self.0.client_gone.cancelled().await;
    }

    /// Ends when standard input has ended and everything is answered that is waited for.
    pub(in super::super) async fn answered(&self) {
        self.0.answered.cancelled().await;
    }
}
