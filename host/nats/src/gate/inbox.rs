//! Where answers come in: one subscription for all calls of a gate, and who waits for which. What nobody waits for any
//! more is dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::{Message, Subscriber};
use haft_core::sync::Lock;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;

use crate::message::TOLD;

/// What is told during a call and waits for its caller; more is left out.
const MAX_TOLD: usize = 256;

/// Those that wait for answers.
#[derive(Default)]
pub(super) struct Inbox {
    subject: String,
    next: AtomicU64,
    waiting: Lock<HashMap<u64, Waiter>>,
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
    number: u64,
    inbox: Arc<Inbox>,
}

impl Inbox {
    /// One whose answers come to subjects below `subject`.
    pub(super) fn new(subject: String) -> Self {
        Self { subject, ..Self::default() }
    }

    /// What to subscribe to.
    pub(super) fn all(&self) -> String {
        format!("{}.>", self.subject)
    }

    /// Waits for an answer from now on.
    pub(super) fn expect(self: &Arc<Self>) -> Expected {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (last, expected) = oneshot::channel();
        let (told, telling) = mpsc::channel(MAX_TOLD);
        self.waiting.lock().insert(number, Waiter { last: Some(last), told });
        let subject = format!("{}.{number}", self.subject);
        Expected { subject, last: expected, told: telling, number, inbox: self.clone() }
    }

    /// Hands out what comes.
    pub(super) async fn run(self: Arc<Self>, mut messages: Subscriber) {
        while let Some(message) = messages.next().await {
            self.deliver(message);
        }
    }

    fn deliver(&self, message: Message) {
        let tail = message.subject.as_str().get(self.subject.len() + 1..).unwrap_or_default();
        let (number, kind) = tail.split_once('.').unwrap_or((tail, ""));
        let Ok(number) = number.parse::<u64>() else { return };
        let mut waiting = self.waiting.lock();
        let Some(waiter) = waiting.get_mut(&number) else { return };
        if kind == TOLD {
            // A caller that does not listen fast enough misses some of it.
            let _ = waiter.told.try_send(message);
        } else if let Some(last) = waiter.last.take() {
            let _ = last.send(message);
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.inbox.waiting.lock().remove(&self.number);
    }
}
