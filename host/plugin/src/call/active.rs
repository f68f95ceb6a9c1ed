//! A call that a guest works for, and what ends it early: a cancel, after a short grace period, and its deadline.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::Call;
use crate::threads::short_call::InlineTime;
use crate::threads::turns::Held;
use crate::wasi::disk_budget::GoesOn;

/// How long before its deadline a guest that asks is told to end: a tenth of its time, and no more than removing what it
/// has begun takes.
const MAX_WARNING: Duration = Duration::from_secs(1);

/// How long a cancelled guest may go on, so that one that polls `cancelled` sees it.
const CANCEL_GRACE: Duration = Duration::from_millis(10);

/// How long a guest that has seen the cancellation may clean up. Shorter than the toolbox waits.
const CLEANUP_GRACE: Duration = Duration::from_secs(1);

/// A call that a guest works for, and how far it is.
pub(crate) struct ActiveCall {
    call: Arc<Call>,
    deadline: Instant,
    /// When a guest that asks is told to end, before the deadline.
    warning: Instant,
    /// Whether it was told.
    pub(crate) warned: bool,
    /// Whether the guest asked whether it was cancelled, and it was.
    cancellation_seen: Arc<AtomicBool>,
    /// When a running guest was first seen to be cancelled.
    cancelled: Option<Instant>,
    /// How long the guest may use the thread that read its call.
    inline_time: Option<InlineTime>,
    /// Messages that the guest wrote.
    pub(crate) logged: usize,
    /// What the guest asked for, and what it was answered.
    pub(crate) asked: Vec<String>,
}

/// Why haft ended a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    /// The caller wants no answer any more.
    #[error("cancelled")]
    Cancelled,
    /// The time is over.
    #[error("out of time")]
    Deadline,
}

impl ActiveCall {
    /// `call`, which may take as long as its limits say from now on.
    pub(crate) fn new(call: Arc<Call>) -> Self {
        let (now, time) = (Instant::now(), call.limits.time);
        let ahead = (time / 10).min(MAX_WARNING);
        Self {
            deadline: now + time,
            warning: now + time.saturating_sub(ahead),
            warned: false,
            cancellation_seen: Arc::default(),
            cancelled: None,
            inline_time: call.begins_inline.then(InlineTime::from_now),
            logged: 0,
            asked: Vec::new(),
            call,
        }
    }

    /// Whether the guest, which asks, is to end by itself: it was cancelled, or its time is nearly over.
    pub(crate) fn should_end(&mut self) -> bool {
        let cancelled = self.cancel.is_cancelled();
        self.cancellation_seen.fetch_or(cancelled, Ordering::Relaxed);
        self.warned |= Instant::now() >= self.warning;
        cancelled || self.warned
    }

    /// Whether the guest may still go on, for what blocks its thread.
    pub(crate) fn goes_on(&self) -> GoesOn {
        let (cancel, deadline) = (self.cancel.clone(), self.deadline);
        Arc::new(move || !cancel.is_cancelled() && Instant::now() < deadline)
    }

    /// Why the guest, which computes, must end now, if it must.
    pub(crate) fn stop(&mut self) -> Option<Stop> {
        let now = Instant::now();
        if now >= self.deadline {
            return Some(Stop::Deadline);
        }
        if !self.cancel.is_cancelled() {
            return None;
        }
        let since = *self.cancelled.get_or_insert(now);
        (now - since >= grace_after_cancel(&self.cancellation_seen)).then_some(Stop::Cancelled)
    }

    /// Whether the guest has used up its time on the thread that read its call. It yields then, once, to go on on another
    /// thread.
    pub(crate) fn leaves_thread(&mut self) -> bool {
        self.inline_time.take_if(|time| time.is_over()).is_some()
    }

    /// What bounds the work of the guest for this call. It holds a turn of the processor while it computes.
    pub(crate) fn bounds(&self, turn: Held) -> Bounds {
        let (cancel, cancellation_seen) = (self.cancel.clone(), self.cancellation_seen.clone());
        Bounds { cancel, cancellation_seen, deadline: self.deadline, turn }
    }
}

impl Deref for ActiveCall {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

/// How long a guest may go on after it was cancelled.
fn grace_after_cancel(cancellation_seen: &AtomicBool) -> Duration {
    if cancellation_seen.load(Ordering::Relaxed) { CLEANUP_GRACE } else { CANCEL_GRACE }
}

/// Stops a guest that waits in a host call; one that computes is stopped by the epoch callback.
pub(crate) struct Bounds {
    cancel: CancellationToken,
    cancellation_seen: Arc<AtomicBool>,
    deadline: Instant,
    turn: Held,
}

impl Bounds {
    /// Does the guest's `work`, unless it is stopped before.
    pub(crate) async fn hold<T>(
        self,
        work: impl Future<Output = wasmtime::Result<T>>,
    ) -> wasmtime::Result<T> {
        let deadline = self.deadline.into();
        tokio::select! {
            biased;
            done = self.turn.clone().during(work) => done,
            () = self.cancelled() => Err(Stop::Cancelled.into()),
            () = tokio::time::sleep_until(deadline) => Err(Stop::Deadline.into()),
        }
    }

    async fn cancelled(&self) {
        self.cancel.cancelled().await;
        let since = Instant::now();
        while since.elapsed() < grace_after_cancel(&self.cancellation_seen) {
            tokio::time::sleep(CANCEL_GRACE).await;
        }
    }
}
