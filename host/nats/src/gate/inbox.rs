//! Where answers come in: one subscription for all calls of a gate, and who waits for which, of which worker. What nobody
//! waits for any more is dropped, and so is what comes where another worker was asked.

use std::collections::HashMap;
use std::sync::Arc;

use async_nats::{Message, Subscriber};
use haft_core::sync::Lock;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;

use crate::error::LinkError;
use crate::message::{TOLD, random_name};

/// What is told during a call and waits for its caller; more is left out.
const MAX_TOLD: usize = 256;

/// Those that wait for answers.
pub(super) struct Inbox {
    /// What the subjects begin with on which gates are answered.
    base: String,
    /// The gate's name.
    gate: String,
    /// By their subjects: the worker's name stands there, and what nobody can guess.
    waiting: Lock<HashMap<String, Waiter>>,
}

struct Waiter {
    last: Option<oneshot::Sender<Message>>,
    told: mpsc::Sender<Message>,
}

/// One who waits: for the last word, and what is told before.
pub(super) struct Expected {
    /// Where to send it.
    pub(super) subject: String,
    pub(super) last: oneshot::Receiver<Message>,
    pub(super) told: mpsc::Receiver<Message>,
    inbox: Arc<Inbox>,
}

impl Inbox {
    /// That of `gate`, whose answers come to subjects below `base`.
    pub(super) fn new(base: String, gate: &str) -> Self {
        Self { base, gate: gate.to_owned(), waiting: Lock::default() }
    }

    /// What to subscribe to.
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

    /// Hands out what comes.
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
            // A caller that does not listen fast enough misses some of it.
            let _ = waiter.told.try_send(message);
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.inbox.waiting.lock().remove(&self.subject);
    }
}
