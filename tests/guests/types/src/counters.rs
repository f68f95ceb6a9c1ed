//! A resource, whose lifetime is longer than a call.

use std::cell::Cell;

use super::Types;
use super::bindings::exports::test::types::counters::{CounterBorrow, Guest, GuestCounter};

/// Counts upwards.
pub(crate) struct Counter(Cell<u32>);

impl GuestCounter for Counter {
    fn new(start: u32) -> Self {
        Self(Cell::new(start))
    }

    fn next(&self) -> u32 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
}

impl Guest for Types {
    type Counter = Counter;

    fn look(counter: CounterBorrow<'_>) -> u32 {
        counter.get::<Counter>().0.get()
    }

    fn count(text: String) -> u32 {
        u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
    }
}
