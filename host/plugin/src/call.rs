//! One call of a tool by a guest: its arguments and its rights. [`ActiveCall`] is a running call, and the events
//! that end it early: a cancellation, after a short grace period, and its deadline.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::contract::Contract;
use crate::threads::short_call::InlineTime;
use crate::threads::turns::Held;
use crate::threads::writable::Writable;
use crate::wasi::disk_budget::GoesOn;
use haft_core::event::Events;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::Notes;
use haft_core::trace::TraceParent;
use haft_core::undo::Changes;

/// A call. Immutable once it has begun.
pub(crate) struct Call {
    pub(crate) plugin: Arc<str>,
    /// Identifies the call among the running ones.
    pub(crate) id: String,
    /// The name that the component itself has for the tool.
    pub(crate) tool: String,
    pub(crate) arguments: Arguments,
    /// The texts among the arguments that could be paths.
    pub(crate) paths: Vec<String>,
    pub(crate) grant: Arc<Grant>,
    pub(crate) limits: Limits,
    /// The directories that the call may write; `None` before a call, when the guest has no directories.
    pub(crate) writable: Option<Writable>,
    pub(crate) caller: Option<Arc<str>>,
    pub(crate) approved: bool,
    /// Whether the guest begins on the thread that read the call.
    pub(crate) begins_inline: bool,
    pub(crate) cancel: CancellationToken,
    pub(crate) events: Events,
    pub(crate) notes: Notes,
    /// The trace context of the guest's requests.
    pub(crate) trace: Option<TraceParent>,
    pub(crate) changes: Changes,
}

impl Call {
    /// Returns the state of a guest without a call: a prewarmed guest, or one that lists its tools.
    pub(crate) fn none(plugin: &Arc<str>, grant: &Arc<Grant>, limits: &Limits) -> Self {
        Self {
            plugin: plugin.clone(),
            id: String::new(),
            tool: String::new(),
            arguments: Arguments::Value(Value::Null),
            paths: Vec::new(),
            grant: grant.clone(),
            limits: *limits,
            writable: None,
            caller: None,
            approved: false,
            begins_inline: false,
            cancel: CancellationToken::new(),
            events: Events::none(),
            notes: Notes::default(),
            trace: None,
            changes: Changes::default(),
        }
    }
}

/// The arguments of a call, stored only in the form for its contract, because they may have many megabytes.
pub(crate) enum Arguments {
    Text(String),
    Value(Value),
}

impl Arguments {
    pub(crate) fn new(contract: Contract, arguments: &Value) -> Self {
        if contract == Contract::Plugin {
            Self::Text(arguments.to_string())
        } else {
            Self::Value(arguments.clone())
        }
    }

    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Value(value) => Cow::Owned(value.to_string()),
        }
    }

    pub(crate) fn value(&self) -> Cow<'_, Value> {
        match self {
            // haft wrote this text, so that it is valid JSON.
            Self::Text(text) => Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
            Self::Value(value) => Cow::Borrowed(value),
        }
    }
}

pub(crate) fn held(value: &Value) -> usize {
    let own = size_of::<Value>();
    own + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(held).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + held(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Maximum time before the deadline at which a polling guest is asked to end: at most a tenth of its time limit,
/// enough to remove unfinished work.
const MAX_WARNING: Duration = Duration::from_secs(1);

/// Time for which a cancelled guest continues, so that a guest that polls `cancelled` sees the cancellation.
const CANCEL_GRACE: Duration = Duration::from_millis(10);

/// Time limit for the clean-up of a guest that has seen the cancellation. Shorter than the wait of the toolbox.
const CLEANUP_GRACE: Duration = Duration::from_secs(1);

pub(crate) struct ActiveCall {
    call: Arc<Call>,
    deadline: Instant,
    /// The time at which a polling guest is asked to end, before the deadline.
    warning: Instant,
    pub(crate) warned: bool,
    /// Whether the guest asked whether it was cancelled, and it was.
    cancellation_seen: Arc<AtomicBool>,
    /// The time at which a running guest first saw the cancellation.
    cancelled: Option<Instant>,
    /// The time that the guest may use of the reading thread.
    inline_time: Option<InlineTime>,
    pub(crate) logged: usize,
    /// The guest's questions, and the answers.
    pub(crate) asked: Vec<String>,
}

/// The reason why haft ended a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    /// The caller no longer waits for the answer.
    #[error("cancelled")]
    Cancelled,
    /// The deadline has passed.
    #[error("out of time")]
    Deadline,
}

impl ActiveCall {
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

    /// Returns whether the guest, which asks, is to end by itself: it was cancelled, or its time is nearly over.
    pub(crate) fn should_end(&mut self) -> bool {
        let cancelled = self.cancel.is_cancelled();
        self.cancellation_seen.fetch_or(cancelled, Ordering::Relaxed);
        self.warned |= Instant::now() >= self.warning;
        cancelled || self.warned
    }

    /// Returns a function that returns whether the guest may continue, for host functions that block its thread.
    pub(crate) fn goes_on(&self) -> GoesOn {
        let (cancel, deadline) = (self.cancel.clone(), self.deadline);
        Arc::new(move || !cancel.is_cancelled() && Instant::now() < deadline)
    }

    /// Returns the reason why the guest, which computes, must end now, if it must.
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

    /// Returns whether the guest has used up its time on the reading thread. It then yields once, to continue on
    /// another thread.
    pub(crate) fn leaves_thread(&mut self) -> bool {
        self.inline_time.take_if(|time| time.is_over()).is_some()
    }

    /// Returns the bounds of the guest's work for this call. They hold a turn of the processor while the guest
    /// computes.
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

fn grace_after_cancel(cancellation_seen: &AtomicBool) -> Duration {
    if cancellation_seen.load(Ordering::Relaxed) { CLEANUP_GRACE } else { CANCEL_GRACE }
}

/// Stops a guest that waits in a host call; the epoch callback stops a computing guest.
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
