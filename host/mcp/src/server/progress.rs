//! Sends a tool's events to the client that made the call: progress notifications where it asked for them, and log
//! messages. Notifications beyond the queue's bound are dropped, so a client that does not read never slows a tool.

#![expect(
    deprecated,
    reason = "logging is what clients of today show; later revisions ask for it call by call"
)]

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use haft_core::event::{Event, Events};
use haft_core::sync::Lock;

/// Notifications of one call that wait to be sent.
const QUEUE: usize = 256;

/// How long an answer waits for the notifications that were told before it.
const FLUSH: Duration = Duration::from_secs(2);

/// What a client hears of one call. To be ended before the call is answered.
pub(super) struct ProgressNotifier(Option<(Events, Arc<Sender>)>);

/// Sends in the background what is told on a guest's thread, from the first word on: most calls have
/// nothing to tell.
struct Sender {
    peer: Peer<RoleServer>,
    runtime: Handle,
    sending: Lock<Option<Sending>>,
}

type Sending = (mpsc::Sender<Told>, JoinHandle<()>);

/// What a client wants to hear.
pub(super) struct Wanted {
    /// Whether and as what it wants progress.
    pub(super) progress: Option<ProgressToken>,
    /// Messages of this level and above; none where it wants none.
    pub(super) log: Option<LoggingLevel>,
}

enum Told {
    Progress(ProgressNotificationParam),
    Log(LoggingMessageNotificationParam),
}

impl ProgressNotifier {
    /// Tells `peer` what it wants to hear of a call of `tool`.
    pub(super) fn begin(peer: &Peer<RoleServer>, tool: &str, wanted: Wanted) -> Self {
        if wanted.progress.is_none() && wanted.log.is_none() {
            return Self(None);
        }
        let (peer, runtime, sending) = (peer.clone(), Handle::current(), Lock::default());
        let sender = Arc::new(Sender { peer, runtime, sending });
        let (tool, far, own) = (tool.to_owned(), Lock::new(f64::NEG_INFINITY), sender.clone());
        let events = Events::during_calls(move |event| {
            if let Some(told) = told(event, &tool, &wanted, &far) {
                own.send(told);
            }
        });
        Self(Some((events, sender)))
    }

    /// Where the call tells what happens.
    pub(super) fn events(&self) -> Events {
        self.0.as_ref().map(|(events, _)| events.clone()).unwrap_or_default()
    }

    /// Sends what was told, and ends. What is told later is told to nobody.
    pub(super) async fn end(self) {
        let Some((_, sender)) = self.0 else { return };
        let told = sender.sending.lock().take();
        let Some((queue, sending)) = told else { return };
        drop(queue);
        let stop = sending.abort_handle();
        if tokio::time::timeout(FLUSH, sending).await.is_err() {
            stop.abort();
        }
    }
}

impl Sender {
    fn send(&self, told: Told) {
        let mut sending = self.sending.lock();
        let (queue, _) = sending.get_or_insert_with(|| {
            let (queue, receiver) = mpsc::channel(QUEUE);
            (queue, self.runtime.spawn(send(self.peer.clone(), receiver)))
        });
        // A client that does not listen misses what does not fit.
        let _ = queue.try_send(told);
    }
}

async fn send(peer: Peer<RoleServer>, mut receiver: mpsc::Receiver<Told>) {
    while let Some(told) = receiver.recv().await {
        let sent = match told {
            Told::Progress(progress) => peer.notify_progress(progress).await,
            Told::Log(message) => peer.notify_logging_message(message).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

fn told(event: &Event, tool: &str, wanted: &Wanted, far: &Lock<f64>) -> Option<Told> {
    match event {
        Event::Progress { done, total, message, .. } => {
            let token = wanted.progress.clone()?;
            progress(token, *done, *total, message, far).map(Told::Progress)
        }
        Event::Info { message, .. } => log(tool, wanted, LoggingLevel::Info, json!(message)),
        Event::Stdout { chunk, .. } => log(tool, wanted, LoggingLevel::Debug, json!({ "stdout": chunk })),
        Event::Stderr { chunk, .. } => log(tool, wanted, LoggingLevel::Debug, json!({ "stderr": chunk })),
        Event::Decided { decision, .. } => log(tool, wanted, LoggingLevel::Debug, json!(decision)),
        _ => None,
    }
}

/// Progress that is some: the protocol wants every number above the one before.
fn progress(
    token: ProgressToken,
    done: f64,
    total: Option<f64>,
    message: &str,
    far: &Lock<f64>,
) -> Option<ProgressNotificationParam> {
    let mut far = far.lock();
    if !done.is_finite() || done <= *far {
        return None;
    }
    *far = done;
    let mut progress = ProgressNotificationParam::new(token, done);
    progress.total = total.filter(|total| total.is_finite());
    progress.message = Some(message.to_owned()).filter(|message| !message.is_empty());
    Some(progress)
}

fn log(tool: &str, wanted: &Wanted, level: LoggingLevel, data: serde_json::Value) -> Option<Told> {
    let least = wanted.log?;
    (rank(level) >= rank(least))
        .then(|| Told::Log(LoggingMessageNotificationParam::new(level, data).with_logger(tool)))
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

    fn wanted(log: Option<LoggingLevel>) -> Wanted {
        Wanted { progress: Some(ProgressToken(NumberOrString::Number(1))), log }
    }

    #[test]
    fn progress_only_goes_on() {
        let far = Lock::new(f64::NEG_INFINITY);
        let step = |done| Event::Progress { call: "1".into(), done, total: None, message: String::new() };
        let told: Vec<bool> = [0.0, 1.0, 1.0, 0.5, f64::NAN, f64::INFINITY, 2.0]
            .map(|done| told(&step(done), "t", &wanted(None), &far).is_some())
            .into();
        assert_eq!(told, [true, true, false, false, false, false, true]);
    }

    #[test]
    fn the_log_has_levels() {
        let far = Lock::new(0.0);
        let info = Event::Info { call: "1".into(), message: "m".into() };
        let stdout = Event::Stdout { call: "1".into(), chunk: "c".into() };
        for (level, expected) in [
            (Some(LoggingLevel::Debug), [true, true]),
            (Some(LoggingLevel::Info), [true, false]),
            (Some(LoggingLevel::Error), [false, false]),
            (None, [false, false]),
        ] {
            let heard = [&info, &stdout].map(|event| told(event, "t", &wanted(level), &far).is_some());
            assert_eq!(heard, expected, "{level:?}");
        }
    }
}
