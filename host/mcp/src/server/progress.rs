//! Tells the client that made a call of it: progress notifications where it asked for them, and log messages. What there is
//! no room for is dropped, so a client that does not read never slows a tool.

#![expect(
    deprecated,
    reason = "logging is what clients of today show; later revisions ask for it call by call"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{
    LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParam, ProgressNotification,
    ProgressNotificationParam, ProgressToken, ServerNotification,
};
use serde_json::json;

use super::requester::Requester;
use haft_core::event::{Event, Events};
use haft_core::sync::Lock;

/// Sends the notifications of one call. To be ended before the call is answered.
pub(super) struct ProgressNotifier {
    events: Events,
    /// Notifications that there was no room for.
    dropped: Arc<AtomicUsize>,
}

/// Which notifications a client wants.
pub(super) struct NotificationFilter {
    /// Whether and as what it wants progress.
    pub(super) progress: Option<ProgressToken>,
    /// Messages of this level and above; none where it wants none.
    pub(super) log: Option<LoggingLevel>,
}

impl ProgressNotifier {
    /// Sends the client of `requester` the notifications of a call of `tool` that pass `filter`.
    pub(super) fn begin(requester: &Requester, tool: &str, filter: NotificationFilter) -> Self {
        let dropped = Arc::<AtomicUsize>::default();
        if filter.progress.is_none() && filter.log.is_none() {
            return Self { events: Events::default(), dropped };
        }
        let (link, tool) = (requester.link.clone(), tool.to_owned());
        let (last_progress, count) = (Lock::new(f64::NEG_INFINITY), dropped.clone());
        let events = Events::during_calls(move |event| {
            if let Some(notification) = notification_of(event, &tool, &filter, &last_progress)
                && !link.tell(notification, is_piece(event))
            {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { events, dropped }
    }

    /// The events of the call.
    pub(super) fn events(&self) -> Events {
        self.events.clone()
    }

    /// Says what there was no room for.
    pub(super) fn end(self) {
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(
                dropped,
                "notifications of a call were dropped: its client does not read them in time"
            );
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
) -> Option<ServerNotification> {
    match event {
        Event::Progress { done, total, message, .. } => {
            let token = filter.progress.clone()?;
            progress(token, *done, *total, message, last_progress)
        }
        Event::Partial { text, .. } => {
            let token = filter.progress.clone()?;
            // Whatever a tool counts itself, one piece is more.
            let done = last_progress.lock().max(0.0) + 1.0;
            progress(token, done, None, text, last_progress)
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
) -> Option<ServerNotification> {
    let mut last_progress = last_progress.lock();
    if !done.is_finite() || done <= *last_progress {
        return None;
    }
    *last_progress = done;
    let mut progress = ProgressNotificationParam::new(token, done);
    progress.total = total.filter(|total| total.is_finite());
    progress.message = Some(message.to_owned()).filter(|message| !message.is_empty());
    Some(ServerNotification::ProgressNotification(ProgressNotification::new(progress)))
}

fn log(
    tool: &str,
    filter: &NotificationFilter,
    level: LoggingLevel,
    data: serde_json::Value,
) -> Option<ServerNotification> {
    let least = filter.log?;
    (rank(level) >= rank(least)).then(|| {
        let message = LoggingMessageNotificationParam::new(level, data).with_logger(tool);
        ServerNotification::LoggingMessageNotification(LoggingMessageNotification::new(message))
    })
}

/// Severity, after RFC 5424.
fn rank(level: LoggingLevel) -> u8 {
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
            let Some(ServerNotification::ProgressNotification(sent)) = notification else {
                panic!("no progress")
            };
            assert_eq!((sent.params.progress, sent.params.message.as_deref()), (expected, Some("a piece")));
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
