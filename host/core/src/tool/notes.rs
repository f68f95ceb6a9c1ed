//! What a tool tells the journal about a call, beside its answer. Bounded, and nothing in it changes
//! what the call does.

use crate::sync::Lock;
use std::sync::Arc;

/// Takes down what the journal should say of a call. Clones write to the same notes; those of a
/// call that is not journalled forget everything.
#[derive(Clone, Debug, Default)]
pub struct Notes(Option<Arc<Lock<Noted>>>);

/// What was noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// What was allowed, narrowed or refused, and what holds the tool to it.
    pub decisions: Vec<String>,
    /// Bytes of memory at most.
    pub peak_memory: Option<u64>,
    /// Whether the time was over.
    pub timed_out: bool,
}

/// Decisions of one call. A guest can try one file after the other for ever.
const MAX_DECISIONS: usize = 50;

/// Characters of a decision: a path and a few words.
const MAX_DECISION: usize = 300;

impl Notes {
    /// Notes that are kept.
    pub fn recording() -> Self {
        Self(Some(Arc::default()))
    }

    /// Notes what was decided, such as `refused: …` or what confines a child. `text` is made only
    /// if anybody reads it.
    pub fn decision(&self, text: impl FnOnce() -> String) {
        self.change(|noted| {
            if noted.decisions.len() < MAX_DECISIONS {
                let text = text();
                let end = text.char_indices().nth(MAX_DECISION).map(|(end, _)| end);
                noted.decisions.push(text.get(..end.unwrap_or(text.len())).unwrap_or_default().to_owned());
            }
        });
    }

    /// Notes how many bytes of memory the tool used at one time; the most counts.
    pub fn memory(&self, bytes: u64) {
        self.change(|noted| noted.peak_memory = noted.peak_memory.max(Some(bytes)));
    }

    /// Notes that the call was stopped because its time was over.
    pub fn timed_out(&self) {
        self.change(|noted| noted.timed_out = true);
    }

    /// What was noted so far.
    pub fn noted(&self) -> Noted {
        let noted = self.0.as_ref().map(|noted| noted.lock().clone());
        noted.unwrap_or_default()
    }

    fn change(&self, change: impl FnOnce(&mut Noted)) {
        if let Some(noted) = &self.0 {
            change(&mut noted.lock());
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
        let decisions = notes.noted().decisions;
        assert_eq!(decisions.len(), MAX_DECISIONS);
        assert!(decisions.iter().all(|text| text.chars().count() == MAX_DECISION));
    }

    #[test]
    fn the_most_memory_counts_and_nobody_s_notes_cost_nothing() {
        let notes = Notes::recording();
        notes.memory(3);
        notes.memory(2);
        assert_eq!(notes.noted().peak_memory, Some(3));
        Notes::default().decision(|| unreachable!());
    }
}
