//! The last answers of a worker, for gates whose connection broke while they were sent. Bounded in number, bytes and age.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use async_nats::Subject;

use crate::payload::Payload;

/// How many are kept: more than come while a connection is made again.
const MAX: usize = 8192;

/// Bytes of all of them.
const MAX_BYTES: usize = 32 << 20;

/// How long one is kept: a gate asks after a call every few seconds.
const AGE: Duration = Duration::from_mins(1);

/// Answers by the ids of their calls, the oldest first.
#[derive(Default)]
pub(super) struct Answers {
    kept: HashMap<String, (Subject, Payload)>,
    order: VecDeque<(Instant, String, usize)>,
    bytes: usize,
}

impl Answers {
    /// Keeps one.
    pub(super) fn put(&mut self, id: String, subject: Subject, payload: Payload) {
        let size = payload.size();
        while self.order.front().is_some_and(|(time, ..)| {
            self.order.len() >= MAX || self.bytes + size > MAX_BYTES || time.elapsed() > AGE
        }) {
            if let Some((_, oldest, size)) = self.order.pop_front() {
                self.kept.remove(&oldest);
                self.bytes -= size;
            }
        }
        if size <= MAX_BYTES {
            self.bytes += size;
            self.order.push_back((Instant::now(), id.clone(), size));
            self.kept.insert(id, (subject, payload));
        }
    }

    /// The answer to the call `id`, and where it was sent.
    pub(super) fn get(&self, id: &str) -> Option<(Subject, Payload)> {
        self.kept.get(id).cloned()
    }
}
