//! The state of a client that hangs up: it closes standard input, with or without requests under way, or its
//! process is gone. Records the state only; `stdio` decides what follows.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// The longest pause between the requests of one burst, and between the last one and the end of standard input.
/// A client that closes standard input so soon has written all requests at once (`printf … | haft serve`) and
/// waits for the answers. A client that wants haft to end has paused for longer.
const RECENT: Duration = Duration::from_millis(250);

/// The requests that a client writes one right behind the other.
#[derive(Debug, Default)]
pub(super) struct Burst {
    /// When the first was read.
    first: Option<Instant>,
    /// When haft was last ready to read. The time that haft takes for a request is no pause of the client.
    ready: Option<Instant>,
}

impl Burst {
    /// A request was read.
    pub(super) fn request_was_read(&mut self) {
        let now = Instant::now();
        if self.first.is_none() || self.has_paused(now) {
            self.first = Some(now);
        }
    }

    /// What was read is passed on.
    pub(super) fn is_ready(&mut self) {
        self.ready = Some(Instant::now());
    }

    /// When the burst began whose end is the end of standard input; `None` where the client paused before that.
    fn since(&self) -> Option<Instant> {
        self.first.filter(|_| !self.has_paused(Instant::now()))
    }

    fn has_paused(&self, now: Instant) -> bool {
        self.ready.is_some_and(|ready| now.duration_since(ready) > RECENT)
    }
}

/// The state of the client's pipes. Clones share it.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Hangup(Arc<HangupState>);

#[derive(Debug, Default)]
struct HangupState {
    /// When the first request was read whose answer the client waits for: set where standard input ended with a
    /// [`Burst`].
    since: OnceLock<Instant>,
    /// Standard input has ended.
    ended: CancellationToken,
    /// The client no longer reads what is written.
    client_gone: CancellationToken,
    /// Everything that is waited for is answered.
    answered: CancellationToken,
}

impl Hangup {
    /// Standard input has ended, with or right after `burst`.
    pub(super) fn input_has_ended(&self, burst: &Burst) {
        if let Some(since) = burst.since() {
            let _ = self.0.since.set(since);
        }
        self.0.ended.cancel();
    }

    /// The client no longer reads what is written.
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
