//! The decisions about a guest's network access, in order, and those that a user could change. For a request they
//! hold the method and the destination only: the rest may hold secrets.

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

use haft_core::event::{Event, Events};
use haft_core::grant::{AddressError, Destination};
use haft_core::sync::Lock;

/// Maximum number of recorded decisions of one call, which bounds a guest in a loop.
const MAX_DECISIONS: usize = 100;

/// Maximum number of characters of a decision: a host name may have 253.
const MAX_LENGTH: usize = 400;

/// Refusals that are kept; see `hints`, which shows as many.
const MAX_REFUSALS: usize = 4;

/// The decisions for one guest. Clones share the decisions, because wasmtime owns some of the deciding callbacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetworkDecisions(Arc<Lock<DecisionList>>);

#[derive(Debug, Default)]
struct DecisionList {
    lines: Vec<String>,
    more: usize,
    refusals: Vec<Refusal>,
}

/// The reason why a guest's request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host(Destination),
    /// The destination is blocked by `fetch_block`.
    Blocked(Destination),
    /// The destination is granted, but its address is not permitted.
    Address(Destination, IpAddr, AddressError),
    /// A refusal that no grant would change, in one line.
    Other(String),
}

impl NetworkDecisions {
    pub(crate) fn allow(&self, what: impl Display) {
        self.0.lock().push(&format!("allowed {what}"));
    }

    /// Records a refusal and its reason.
    pub(crate) fn refuse(&self, what: impl Display, why: impl Display) {
        self.0.lock().push(&format!("refused {what}: {why}"));
    }

    /// Records a refusal for the hints, if it is new and there is room.
    pub(crate) fn hint(&self, refusal: Refusal) {
        let refusals = &mut self.0.lock().refusals;
        if refusals.len() < MAX_REFUSALS && !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }

    /// Returns the decisions, each in one line; the last line has the number of omitted ones.
    pub(crate) fn list(&self) -> Vec<String> {
        let list = self.0.lock();
        let more = (list.more > 0).then(|| format!("and {} decisions more", list.more));
        list.lines.iter().cloned().chain(more).collect()
    }

    /// Removes all decisions after their emission.
    pub(crate) fn clear(&self) {
        *self.0.lock() = DecisionList::default();
    }

    pub(crate) fn emit_to(&self, call: &str, events: &Events) {
        for decision in self.list() {
            events.emit(|| Event::Decided { call: call.to_owned(), decision });
        }
    }

    /// Returns the refusals, in order.
    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        self.0.lock().refusals.clone()
    }
}

impl DecisionList {
    fn push(&mut self, line: &str) {
        if self.lines.len() < MAX_DECISIONS {
            self.lines.push(line.chars().take(MAX_LENGTH).collect());
        } else {
            self.more += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_few_and_short() {
        let decisions = NetworkDecisions::default();
        decisions.refuse("x".repeat(1000), "it is long");
        (0..1000).for_each(|number| decisions.allow(number));
        (0..1000).for_each(|number| decisions.hint(Refusal::Other(number.to_string())));
        let list = decisions.list();
        assert_eq!(list.len(), 101);
        assert_eq!(list[0].len(), 400);
        assert_eq!(list[99..], ["allowed 98", "and 901 decisions more"]);
        assert_eq!(decisions.refusals().len(), 4);
    }
}
