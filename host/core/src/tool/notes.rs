//! A tool's notes about a call, for the journal and for the caller, beside the answer. Notes are bounded and do not
//! change the call.

use crate::grant::Right;
use crate::sync::Lock;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Collects the notes of a call for the journal. Clones share the notes; without a journal nothing is stored.
#[derive(Clone, Debug, Default)]
pub struct Notes(Option<Arc<Lock<CallNotes>>>);

/// The notes of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallNotes {
    /// Decisions: allowed, narrowed or refused rights, and the confinement of the tool.
    pub decisions: Vec<String>,
    /// Bytes of memory at most.
    pub peak_memory: Option<u64>,
    /// The time for which the call waited for the user.
    pub waited: Duration,
    /// Converted arguments, as text for the caller.
    pub coerced: Vec<String>,
    /// Whether the time was over.
    pub timed_out: bool,
    /// Whether the tool failed after the sandbox had refused it an access.
    pub refused: bool,
    /// The proposed rights that would have allowed the access.
    pub proposed: Vec<Right>,
}

/// A wait for the user, until it is dropped: also if the call is cancelled meanwhile.
struct Waiting<'n>(&'n Notes, Instant);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.change(|notes| notes.waited += self.1.elapsed());
    }
}

/// Maximum number of decisions of one call, which bounds a guest that tries one file after the other.
const MAX_DECISIONS: usize = 50;

/// Maximum number of characters of a decision: a path and a few words.
const MAX_DECISION: usize = 300;

impl Notes {
    /// Creates notes that are stored.
    pub fn recording() -> Self {
        Self(Some(Arc::default()))
    }

    /// Returns whether anything is kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Records a decision, such as `refused: …`, or the confinement of a child. `text` is called only if there is a
    /// journal.
    pub fn decision(&self, text: impl FnOnce() -> String) {
        self.change(|notes| {
            if notes.decisions.len() < MAX_DECISIONS {
                notes.decisions.push(text().chars().take(MAX_DECISION).collect());
            }
        });
    }

    /// Records the number of bytes of memory that the tool used. The maximum counts.
    pub fn memory(&self, bytes: u64) {
        self.change(|notes| notes.peak_memory = notes.peak_memory.max(Some(bytes)));
    }

    /// Waits for `person`, and notes how long the call did.
    pub(super) async fn waiting<T>(&self, person: impl Future<Output = T>) -> T {
        let _noted = Waiting(self, Instant::now());
        person.await
    }

    /// Records the conversions of arguments.
    pub(super) fn coerced(&self, texts: Vec<String>) {
        if !texts.is_empty() {
            self.change(|notes| notes.coerced = texts);
        }
    }

    /// Records that the call was stopped at its time limit.
    pub fn timed_out(&self) {
        self.change(|notes| notes.timed_out = true);
    }

    /// Records that the tool failed after the sandbox had refused an access that `proposed` would have allowed.
    pub fn refused(&self, proposed: Vec<Right>) {
        self.change(|notes| (notes.refused, notes.proposed) = (true, proposed));
    }

    /// Clears the end of the call, which is made once more.
    pub(super) fn forget_end(&self) {
        self.change(|notes| {
            (notes.refused, notes.timed_out) = (false, false);
            notes.proposed.clear();
        });
    }

    /// Returns the notes so far.
    pub fn notes(&self) -> CallNotes {
        let notes = self.0.as_ref().map(|notes| notes.lock().clone());
        notes.unwrap_or_default()
    }

    fn change(&self, change: impl FnOnce(&mut CallNotes)) {
        if let Some(notes) = &self.0 {
            change(&mut notes.lock());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_bounded() {
        let notes = Notes::recording();
        for _ in 0..100 {
            notes.decision(|| "ö".repeat(10_000));
        }
        let decisions = notes.notes().decisions;
        assert_eq!(decisions.len(), MAX_DECISIONS);
        assert!(decisions.iter().all(|text| text.chars().count() == MAX_DECISION));
    }

    #[test]
    fn the_most_memory_counts_and_nobody_s_notes_cost_nothing() {
        let notes = Notes::recording();
        notes.memory(3);
        notes.memory(2);
        assert_eq!(notes.notes().peak_memory, Some(3));
        Notes::default().decision(|| unreachable!());
    }
}
