//! The places of a worker: the limit of concurrent calls. Does not queue: a call without a place is rejected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::Notify;

/// The limit and the number of running calls.
pub(super) struct Places {
    most: u32,
    busy: AtomicU32,
    is_closed: AtomicBool,
    /// Whether a call was rejected since a place was last free: gates are notified when a place becomes free.
    is_missed: AtomicBool,
    missed: Notify,
}

/// A used place, released on drop.
pub(super) struct Taken(Arc<Places>);

impl Places {
    pub(super) fn new(most: u32) -> Self {
        let (is_closed, is_missed) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { most, busy: AtomicU32::new(0), is_closed, is_missed, missed: Notify::new() }
    }

    /// Takes a place if one is free.
    pub(super) fn take(places: &Arc<Self>) -> Option<Taken> {
        let one_more = |busy: u32| (busy < places.most && !places.is_closed()).then_some(busy + 1);
        let taken = places.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        if taken.is_err() {
            places.is_missed.store(true, Ordering::Release);
        }
        taken.is_ok().then(|| Taken(places.clone()))
    }

    /// Closes all places for new calls.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Returns the number of places.
    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// Returns the number of used places.
    pub(super) fn busy(&self) -> u32 {
        self.busy.load(Ordering::Acquire)
    }

    /// Waits until a place is free after a call was rejected.
    pub(super) async fn were_missed(&self) {
        self.missed.notified().await;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Self(places) = self;
        places.busy.fetch_sub(1, Ordering::AcqRel);
        if places.is_missed.swap(false, Ordering::AcqRel) {
            places.missed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_more_than_there_are_and_a_missed_one_is_told() {
        let places = Arc::new(Places::new(1));
        let taken = Places::take(&places).unwrap();
        assert!(Places::take(&places).is_none());
        drop(taken);
        places.were_missed().await;
        assert_eq!(places.busy(), 0);
        places.close();
        assert!(Places::take(&places).is_none());
    }
}
