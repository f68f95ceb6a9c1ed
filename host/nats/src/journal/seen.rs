//! Recognises lines that were read before. Memory does not grow with the stream.
//!
//! A worker sends its lines in order, and repeats only those since its bookmark, which is one batch. So a duplicate
//! comes within two batches of the same worker.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};

use super::BATCH;

/// The number of remembered lines of a worker: twice the maximum distance of duplicates.
const KNOWN: usize = 4 * BATCH;

/// The maximum number of workers, with at most 20 KiB each. Beyond it, the worker that was silent longest is
/// dropped.
const WORKERS: usize = 1024;

/// The latest lines of each worker.
#[derive(Default)]
pub(super) struct Seen {
    workers: HashMap<String, Window>,
    /// A counter of lines.
    now: u64,
}

#[derive(Default)]
struct Window {
    known: HashSet<u64>,
    order: VecDeque<u64>,
    /// The counter at its last line.
    last: u64,
}

impl Seen {
    /// Records a line; returns whether it is new.
    pub(super) fn is_new(&mut self, worker: &str, key: &str) -> bool {
        self.now += 1;
        if !self.workers.contains_key(worker) {
            self.make_room();
            self.workers.insert(worker.to_owned(), Window::default());
        }
        let now = self.now;
        self.workers.get_mut(worker).is_none_or(|window| window.is_new(key, now))
    }

    fn make_room(&mut self) {
        if self.workers.len() < WORKERS {
            return;
        }
        let silent = self.workers.iter().min_by_key(|(_, window)| window.last).map(|(name, _)| name.clone());
        if let Some(name) = silent {
            self.workers.remove(&name);
        }
    }
}

impl Window {
    fn is_new(&mut self, key: &str, now: u64) -> bool {
        self.last = now;
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let key = hasher.finish();
        if !self.known.insert(key) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_is_sent_again_is_recognised_among_the_lines_of_others() {
        let mut seen = Seen::default();
        let mut take = |worker: &str, numbers: std::ops::Range<usize>| {
            numbers.filter(|number| seen.is_new(worker, &format!("{worker}-{number}"))).count()
        };
        assert_eq!(take("eu", 0..BATCH), BATCH);
        assert_eq!(take("us", 0..10 * KNOWN), 10 * KNOWN);
        assert_eq!(take("eu", 0..2 * BATCH), BATCH);
        assert_eq!(take("eu", BATCH..2 * BATCH), 0);
    }

    #[test]
    fn memory_does_not_grow_with_lines_or_workers() {
        let mut seen = Seen::default();
        for number in 0..10 * KNOWN {
            assert!(seen.is_new("eu", &number.to_string()));
        }
        let window = &seen.workers["eu"];
        assert_eq!((window.known.len(), window.order.len()), (KNOWN, KNOWN));
        for number in 0..3 * WORKERS {
            assert!(seen.is_new(&number.to_string(), "key"));
            assert!(!seen.is_new(&number.to_string(), "key"));
        }
        assert_eq!(seen.workers.len(), WORKERS);
        assert!(!seen.workers.contains_key("eu"));
    }
}
