//! Sends a tool's events to the client that made the call: progress notifications where it asked for them, and log
//! messages. Notifications beyond the queue's bound are dropped, so a client that does not read never slows a tool.

#![expect(
    deprecated,
    reason = "logging is what clients of today show; later revisions ask for it call by call"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::begun::LaterPeer;
use haft_core::event::{Event, Events};
use haft_core::sync::Lock;

/// Notifications of one call that wait to be sent: all that a plugin may tell in a call, which may do so before its client
/// is known.
const QUEUE: usize = 1024;

/// Of those, pieces of what a process prints or of an answer, which are long.
const MAX_PIECES: usize = 256;

/// How long an answer waits for the notifications before it.
const FLUSH: Duration = Duration::from_secs(2);

/// Sends the notifications of one call. To be ended before the call is answered.
pub(super) struct ProgressNotifier(Option<(Events, Arc<Sender>)>);

/// Sends notifications in the background, started by the first one: most calls emit none.
struct Sender {
    peer: Peer<RoleServer>,
    /// Where the peer is only known later.
    later: Option<LaterPeer>,
    runtime: Handle,
    sending: Lock<Option<Sending>>,
    dropped: AtomicUsize,
}

type Sending = (mpsc::Sender<Notification>, JoinHandle<()>);

/// Which notifications a client wants.
pub(super) struct NotificationFilter {
    /// Whether and as what it wants progress.
    pub(super) progress: Option<ProgressToken>,
    /// Messages of this level and above; none where it wants none.
    pub(super) log: Option<LoggingLevel>,
}

enum Notification {
    Progress(ProgressNotificationParam),
    Log(LoggingMessageNotificationParam),
}

impl ProgressNotifier {
    /// Sends the client of `context` the notifications of a call of `tool` that pass `filter`.
    pub(super) fn begin(
        context: &RequestContext<RoleServer>,
        tool: &str,
        filter: NotificationFilter,
    ) -> Self {
        if filter.progress.is_none() && filter.log.is_none() {
            return Self(None);
        }
        let (peer, later) = (context.peer.clone(), context.extensions.get::<LaterPeer>().cloned());
        let (runtime, sending, dropped) = (Handle::current(), Lock::default(), AtomicUsize::new(0));
        let sender = Arc::new(Sender { peer, later, runtime, sending, dropped });
        let (tool, last_progress, own) = (tool.to_owned(), Lock::new(f64::NEG_INFINITY), sender.clone());
        let events = Events::during_calls(move |event| {
            if let Some(notification) = notification_of(event, &tool, &filter, &last_progress) {
                own.send(notification, is_piece(event));
            }
        });
        Self(Some((events, sender)))
    }

    /// The events of the call.
    pub(super) fn events(&self) -> Events {
        self.0.as_ref().map(|(events, _)| events.clone()).unwrap_or_default()
    }

    /// Sends the queued notifications, and stops; later events are dropped.
    pub(super) async fn end(self) {
        let Some((_, sender)) = self.0 else { return };
        let taken = sender.sending.lock().take();
        let Some((queue, sending)) = taken else { return };
        drop(queue);
        let dropped = sender.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(
                dropped,
                "notifications of a call were dropped: its client does not read them in time"
            );
        }
        let stop = sending.abort_handle();
        if tokio::time::timeout(FLUSH, sending).await.is_err() {
            stop.abort();
        }
    }
}

impl Sender {
    fn send(&self, notification: Notification, is_piece: bool) {
        let mut sending = self.sending.lock();
        let (queue, _) = sending.get_or_insert_with(|| {
            let (queue, receiver) = mpsc::channel(QUEUE);
            (queue, self.runtime.spawn(send(self.peer.clone(), self.later.clone(), receiver)))
        });
        // A client that does not read misses what does not fit.
        let has_room = !is_piece || queue.capacity() > QUEUE - MAX_PIECES;
        if !has_room || queue.try_send(notification).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn send(
    mut peer: Peer<RoleServer>,
    later: Option<LaterPeer>,
    mut receiver: mpsc::Receiver<Notification>,
) {
    if let Some(later) = later {
        let Some(known) = later.get().await else { return };
        peer = known;
    }
    while let Some(notification) = receiver.recv().await {
        let sent = match notification {
            Notification::Progress(progress) => peer.notify_progress(progress).await,
            Notification::Log(message) => peer.notify_logging_message(message).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Whether an event is one of many.
fn is_piece(event: &Event) -> bool {
    matches!(event, Event::Stdout { .. } | Event::Stderr { .. } | Event::Partial { .. })
}

fn notification_of(
    event: &Event,
    tool: &str,
    filter: &NotificationFilter,
    last_progress: &Lock<f64>,
) -> Option<Notification> {
    match event {
        Event::Progress { done, total, message, .. } => {
            let token = filter.progress.clone()?;
            progress(token, *done, *total, message, last_progress).map(Notification::Progress)
        }
        Event::Partial { text, .. } => {
            let token = filter.progress.clone()?;
            // Whatever a tool counts itself, one piece is more.
            let done = last_progress.lock().max(0.0) + 1.0;
            progress(token, done, None, text, last_progress).map(Notification::Progress)
        }
        Event::Info { message, .. } => log(tool, filter, LoggingLevel::Info, json!(message)),
        Event::Stdout { chunk, .. } => log(tool, filter, LoggingLevel::Debug, json!({ "stdout": chunk })),
        Event::Stderr { chunk, .. } => log(tool, filter, LoggingLevel::Debug, json!({ "stderr": chunk })),
        Event::Decided { decision, .. } => log(tool, filter, LoggingLevel::Debug, json!(decision)),
        _ => None,
    }
}

/// A progress notification, if the progress grew: the protocol requires increasing values.
fn progress(
    token: ProgressToken,
    done: f64,
    total: Option<f64>,
    message: &str,
    last_progress: &Lock<f64>,
) -> Option<ProgressNotificationParam> {
    let mut last_progress = last_progress.lock();
    if !done.is_finite() || done <= *last_progress {
        return None;
    }
    *last_progress = done;
    let mut progress = ProgressNotificationParam::new(token, done);
    progress.total = total.filter(|total| total.is_finite());
    progress.message = Some(message.to_owned()).filter(|message| !message.is_empty());
    Some(progress)
}

fn log(
    tool: &str,
    filter: &NotificationFilter,
    level: LoggingLevel,
    data: serde_json::Value,
) -> Option<Notification> {
    let least = filter.log?;
    (rank(level) >= rank(least))
        .then(|| Notification::Log(LoggingMessageNotificationParam::new(level, data).with_logger(tool)))
}

/// Severity, after RFC 5424.
pub(super) fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    fn filter(log: Option<LoggingLevel>) -> NotificationFilter {
        NotificationFilter { progress: Some(ProgressToken(NumberOrString::Number(1))), log }
    }

    #[test]
    fn progress_only_goes_on() {
        let last_progress = Lock::new(f64::NEG_INFINITY);
        let step = |done| Event::Progress { call: "1".into(), done, total: None, message: String::new() };
        let sent: Vec<bool> = [0.0, 1.0, 1.0, 0.5, f64::NAN, f64::INFINITY, 2.0]
            .map(|done| notification_of(&step(done), "t", &filter(None), &last_progress).is_some())
            .into();
        assert_eq!(sent, [true, true, false, false, false, false, true]);
    }

    #[test]
    fn pieces_of_an_answer_are_progress() {
        let last_progress = Lock::new(f64::NEG_INFINITY);
        let piece = Event::Partial { call: "1".into(), text: "a piece".into() };
        for expected in [1.0, 2.0] {
            let notification = notification_of(&piece, "t", &filter(None), &last_progress);
            let Some(Notification::Progress(sent)) = notification else { panic!("no progress") };
            assert_eq!((sent.progress, sent.message.as_deref()), (expected, Some("a piece")));
        }
    }

    #[test]
    fn the_log_has_levels() {
        let last_progress = Lock::new(0.0);
        let info = Event::Info { call: "1".into(), message: "m".into() };
        let stdout = Event::Stdout { call: "1".into(), chunk: "c".into() };
        for (level, expected) in [
            (Some(LoggingLevel::Debug), [true, true]),
            (Some(LoggingLevel::Info), [true, false]),
            (Some(LoggingLevel::Error), [false, false]),
            (None, [false, false]),
        ] {
            let sent = [&info, &stdout]
                .map(|event| notification_of(event, "t", &filter(level), &last_progress).is_some());
            assert_eq!(sent, expected, "{level:?}");
        }
    }
}
