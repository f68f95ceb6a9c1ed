//! The inbox for answers: one subscription for all calls of a gate, which dispatches messages to the waiting calls.
//! Drops messages without a waiting call, and messages from another worker than the one asked.

use std::collections::HashMap;
use std::sync::Arc;

use async_nats::{Message, Subscriber};
use haft_core::sync::Lock;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;

use crate::LinkError;
use crate::message::{TOLD, random_name};

/// The maximum number of queued events of a call; more are dropped.
const MAX_TOLD: usize = 256;

/// The waiting calls of a gate.
pub(super) struct Inbox {
    /// The prefix of the answer subjects of gates.
    base: String,
    /// The name of the gate.
    gate: String,
    /// The waiting calls by subject: it contains the name of the worker and a random part that cannot be guessed.
    waiting: Lock<HashMap<String, Waiter>>,
}

struct Waiter {
    last: Option<oneshot::Sender<Message>>,
    told: mpsc::Sender<Message>,
}

/// A waiting call: receives the final message and the events before it.
pub(super) struct Expected {
    /// The subject for answers.
    pub(super) subject: String,
    pub(super) last: oneshot::Receiver<Message>,
    pub(super) told: mpsc::Receiver<Message>,
    inbox: Arc<Inbox>,
}

impl Inbox {
    /// Makes the inbox of `gate`, with answer subjects below `base`.
    pub(super) fn new(base: String, gate: &str) -> Self {
        Self { base, gate: gate.to_owned(), waiting: Lock::default() }
    }

    /// Returns the subject to subscribe to.
    pub(super) fn all(&self) -> String {
        format!("{}.*.{}.>", self.base, self.gate)
    }

    /// Waits for an answer of `worker` from now on.
    pub(super) fn expect(self: &Arc<Self>, worker: &str) -> Result<Expected, LinkError> {
        let subject = format!("{}.{worker}.{}.{}", self.base, self.gate, random_name()?);
        let (last, expected) = oneshot::channel();
        let (told, telling) = mpsc::channel(MAX_TOLD);
        self.waiting.lock().insert(subject.clone(), Waiter { last: Some(last), told });
        Ok(Expected { subject, last: expected, told: telling, inbox: self.clone() })
    }

    /// Dispatches incoming messages.
    pub(super) async fn run(self: Arc<Self>, mut messages: Subscriber) {
        while let Some(message) = messages.next().await {
            self.deliver(message);
        }
    }

    fn deliver(&self, message: Message) {
        let mut waiting = self.waiting.lock();
        if let Some(waiter) = waiting.get_mut(message.subject.as_str()) {
            if let Some(last) = waiter.last.take() {
                let _ = last.send(message);
            }
        } else if let Some((subject, TOLD)) = message.subject.as_str().rsplit_once('.')
            && let Some(waiter) = waiting.get_mut(subject)
        {
            // A slow receiver misses events.
            let _ = waiter.told.try_send(message);
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.inbox.waiting.lock().remove(&self.subject);
    }
}
