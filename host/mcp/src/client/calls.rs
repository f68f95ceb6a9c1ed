//! The ongoing calls of a server, by progress token, so that its notifications reach the caller. Notifications about
//! answered calls are dropped.
#![expect(deprecated, reason = "servers of all versions log")]

use std::sync::Arc;

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};
use serde_json::{Map, Value};

use haft_core::event::{Event, Events};
use haft_core::sync::Lock;
use haft_core::tool::{Client, Elicitor};
use haft_core::trace::TraceParent;

/// Maximum number of characters of a message that is passed on.
const MAX_MESSAGE: usize = 2000;

/// A call, and the receiver of its events.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    /// The call's id.
    pub(super) call: String,
    /// Receives the events of the call.
    pub(super) events: Events,
    /// The trace context of the server's part of the call.
    pub(super) trace: Option<TraceParent>,
    /// The client that makes the call.
    pub(super) client: Client,
    /// The user who answers questions of the server during the call.
    pub(super) person: Option<Arc<dyn Elicitor>>,
    /// The client's metadata in the call for the server.
    pub(super) meta: Option<Map<String, Value>>,
}

/// Running calls.
#[derive(Debug, Default)]
pub(super) struct OngoingCalls {
    /// Held while a request is sent, because a notification about it may arrive before it is registered.
    sending: tokio::sync::Mutex<()>,
    /// The ongoing calls, oldest first.
    ongoing: Lock<Vec<Ongoing>>,
}

#[derive(Debug)]
struct Ongoing {
    token: ProgressToken,
    listener: Listener,
    /// The last progress that was emitted.
    done: f64,
}

impl OngoingCalls {
    /// Sends a request with `send`, which returns its token among other things, and notes it.
    pub(super) async fn begin<T, E>(
        &self,
        listener: &Listener,
        send: impl Future<Output = Result<T, E>>,
        token: impl FnOnce(&T) -> ProgressToken,
    ) -> Result<T, E> {
        let _sending = self.sending.lock().await;
        let done = send.await?;
        let token = token(&done);
        self.ongoing.lock().push(Ongoing { token, listener: listener.clone(), done: f64::NEG_INFINITY });
        Ok(done)
    }

    /// Ends a call.
    pub(super) fn end(&self, token: &ProgressToken) {
        self.ongoing.lock().retain(|ongoing| ongoing.token != *token);
    }

    /// Returns the call that a question of the server belongs to: the latest one, if all are of one client. A
    /// question names no call, and no client may answer a question about another client's call.
    pub(super) fn asking(&self) -> Option<Listener> {
        let ongoing = self.ongoing.lock();
        let last = &ongoing.last()?.listener;
        ongoing.iter().all(|one| one.listener.client == last.client).then(|| last.clone())
    }

    /// Emits the progress of a call. Late or smaller values are dropped: messages may overtake each other.
    pub(super) async fn progress(&self, progress: ProgressNotificationParam) {
        drop(self.sending.lock().await);
        let mut ongoing = self.ongoing.lock();
        let found = ongoing.iter_mut().find(|ongoing| ongoing.token == progress.progress_token);
        let Some(found) = found.filter(|found| progress.progress > found.done) else { return };
        found.done = progress.progress;
        let Listener { call, events, .. } = found.listener.clone();
        drop(ongoing);
        let message = shortened(progress.message.unwrap_or_default());
        let (done, total) = (progress.progress, progress.total);
        events.emit(|| Event::Progress { call, done, total, message });
    }

    /// Emits a log message of the server for the latest ongoing call, because the message names no call. Without an
    /// ongoing call only haft's log gets the message.
    pub(super) fn log(&self, server: &str, message: LoggingMessageNotificationParam) {
        let text = shortened(match message.data {
            Value::String(text) => text,
            data => data.to_string(),
        });
        if message.level == LoggingLevel::Debug {
            tracing::debug!(server, "{text}");
            return;
        }
        tracing::info!(server, "{text}");
        let listener = self.ongoing.lock().last().map(|ongoing| ongoing.listener.clone());
        if let Some(Listener { call, events, .. }) = listener {
            events.emit(|| Event::Info { call, message: format!("{server}: {text}") });
        }
    }
}

/// Returns `text` cut to [`MAX_MESSAGE`] characters, without control characters.
pub(super) fn shortened(text: String) -> String {
    let is_fine = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(is_fine) && text.len() <= MAX_MESSAGE {
        return text;
    }
    text.chars().filter(|c| is_fine(*c)).take(MAX_MESSAGE).collect()
}
