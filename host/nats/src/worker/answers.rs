//! The latest answers of a worker, for gates whose connection broke during the transfer. Bounded in number, bytes
//! and age.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use async_nats::Subject;

use crate::payload::Payload;

/// The maximum number of answers: more than arrive during a reconnection.
const MAX: usize = 8192;

/// The maximum size of all answers in bytes.
const MAX_BYTES: usize = 32 << 20;

/// How long an answer is kept: a gate asks for the status of a call every few seconds.
const AGE: Duration = Duration::from_mins(1);

/// The answers by the ids of their calls, oldest first.
#[derive(Default)]
pub(super) struct Answers {
    kept: HashMap<String, (Subject, Payload)>,
    order: VecDeque<(Instant, String, usize)>,
    bytes: usize,
}

impl Answers {
    /// Stores an answer.
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

    /// Returns the answer to the call `id`, and its subject.
    pub(super) fn get(&self, id: &str) -> Option<(Subject, Payload)> {
        self.kept.get(id).cloned()
    }
}
