//! The ongoing calls of a server, so that its notifications reach the caller. A transport hands them on, in order and
//! before the answer, because rmcp runs handlers in tasks, which the answer overtakes. Notifications about answered
//! calls are dropped.
#![expect(deprecated, reason = "servers of all versions log")]

use std::sync::{Arc, Weak};

use rmcp::model::{
    ClientCapabilities, ClientJsonRpcMessage, ClientRequest, GetExtensions, GetMeta, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, RequestMetaObject,
    ServerNotification,
};
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

impl Listener {
    /// Returns the metadata of each request to a stateless server. The server logs only for requests with a level,
    /// and refuses a call that needs a person instead of asking nobody.
    pub(super) fn stateless_meta(
        &self,
        mut capabilities: ClientCapabilities,
        has_person: bool,
    ) -> RequestMetaObject {
        let mut meta = RequestMetaObject::new();
        if self.events.has_listener() {
            meta.set_log_level(LoggingLevel::Info);
        }
        if !has_person {
            capabilities.elicitation = None;
            meta.set_client_capabilities(capabilities);
        }
        meta
    }
}

/// A call that has no answer yet.
#[derive(Debug)]
pub(super) struct Ongoing {
    /// The name of the server.
    server: String,
    listener: Listener,
    /// The last progress that was emitted.
    done: Lock<f64>,
}

impl Ongoing {
    /// Creates the call of `listener`, and attaches it to its request, so that the transport finds it there.
    pub(super) fn attach(request: &mut ClientRequest, listener: &Listener, server: &str) -> Arc<Self> {
        let (server, listener) = (server.to_owned(), listener.clone());
        let own = Arc::new(Self { server, listener, done: Lock::new(f64::NEG_INFINITY) });
        request.extensions_mut().insert(Arc::downgrade(&own));
        own
    }

    /// Emits progress, unless it is less than before: the messages of two HTTP streams may overtake each other.
    fn progress(&self, progress: &ProgressNotificationParam) {
        if !self.advance(progress.progress) {
            return;
        }
        let Listener { call, events, .. } = &self.listener;
        events.emit(|| Event::Progress {
            call: call.clone(),
            done: progress.progress,
            total: progress.total,
            message: shortened(progress.message.clone().unwrap_or_default()),
        });
    }

    /// Returns whether `done` is more than before, and notes it.
    fn advance(&self, done: f64) -> bool {
        let mut last = self.done.lock();
        let is_more = done > *last;
        if is_more {
            *last = done;
        }
        is_more
    }

    /// Emits a log message, unless only developers of the server read it.
    fn log(&self, message: &LoggingMessageNotificationParam) {
        if message.level == LoggingLevel::Debug {
            return;
        }
        let Listener { call, events, .. } = &self.listener;
        events.emit(|| Event::Info {
            call: call.clone(),
            message: format!("{}: {}", self.server, text_of(message)),
        });
    }
}

/// The calls whose requests a transport has sent, oldest first.
#[derive(Debug, Default)]
pub(super) struct SentCalls(Lock<Vec<(ProgressToken, Weak<Ongoing>)>>);

impl SentCalls {
    /// Notes the call that `message` makes, if it makes one. Must precede the write of the message, because the
    /// server may report at once.
    pub(super) fn note(&self, message: &ClientJsonRpcMessage) {
        let ClientJsonRpcMessage::Request(own) = message else { return };
        let call = own.request.extensions().get::<Weak<Ongoing>>();
        let Some((token, call)) = own.request.get_meta().get_progress_token().zip(call) else { return };
        let mut sent = self.0.lock();
        sent.retain(|(_, call)| call.strong_count() > 0);
        sent.push((token, call.clone()));
    }

    /// Emits a notification for its call. A log message names no call, and belongs to the latest one, if all are of one
    /// client: no client reads a message about another client's call.
    pub(super) fn hear(&self, notification: &ServerNotification) {
        match notification {
            ServerNotification::ProgressNotification(own) => {
                let token = &own.params.progress_token;
                let sent = self.0.lock();
                let call = sent.iter().find(|(own, _)| own == token).and_then(|(_, call)| call.upgrade());
                drop(sent);
                if let Some(call) = call {
                    call.progress(&own.params);
                }
            }
            ServerNotification::LoggingMessageNotification(own) => {
                if let Some(call) = self.latest() {
                    call.log(&own.params);
                }
            }
            _ => {}
        }
    }

    /// Returns the call that a question of the server belongs to: the latest one, if all are of one client. A
    /// question names no call, and no client may answer a question about another client's call.
    pub(super) fn asking(&self) -> Option<Listener> {
        self.latest().map(|call| call.listener.clone())
    }

    /// Returns the latest unanswered call, if all are of one client.
    fn latest(&self) -> Option<Arc<Ongoing>> {
        let calls: Vec<_> = self.0.lock().iter().filter_map(|(_, call)| call.upgrade()).collect();
        let last = calls.last()?;
        let is_one = calls.iter().all(|call| call.listener.client == last.listener.client);
        is_one.then(|| last.clone())
    }
}

/// Writes a log message of a server to haft's log.
pub(super) fn log(server: &str, message: &LoggingMessageNotificationParam) {
    let text = text_of(message);
    if message.level == LoggingLevel::Debug {
        tracing::debug!(server, "{text}");
    } else {
        tracing::info!(server, "{text}");
    }
}

fn text_of(message: &LoggingMessageNotificationParam) -> String {
    shortened(match &message.data {
        Value::String(text) => text.clone(),
        data => data.to_string(),
    })
}

/// Returns `text` cut to [`MAX_MESSAGE`] characters, without control characters.
pub(super) fn shortened(text: String) -> String {
    let is_fine = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(is_fine) && text.len() <= MAX_MESSAGE {
        return text;
    }
    text.chars().filter(|c| is_fine(*c)).take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests;
