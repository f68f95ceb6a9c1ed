//! The totals of a run so far: turns, tokens, cost. Records the outcome, and does not decide it.

use std::time::Instant;

use super::{End, Outcome};
use crate::provider::{ProviderError, Turn, Usage};

/// What a run has come to so far.
pub(super) struct Totals {
    started: Instant,
    texts: Vec<String>,
    turns: u32,
    usage: Usage,
    model: String,
}

impl Totals {
    pub(super) fn new(model: &str) -> Self {
        Self {
            started: Instant::now(),
            texts: Vec::new(),
            turns: 0,
            usage: Usage::default(),
            model: model.to_owned(),
        }
    }

    pub(super) fn count(&mut self, turn: &Turn) {
        self.turns += 1;
        self.usage += turn.usage;
        self.model.clone_from(&turn.model);
        self.texts.push(turn.reply.text.clone());
    }

    /// The last words where the model came to an end by itself, else all that it said on the way.
    pub(super) fn close(self, end: End) -> Outcome {
        let text = if end.is_resumable() {
            let texts: Vec<_> = self.texts.into_iter().filter(|text| !text.trim().is_empty()).collect();
            texts.join("\n\n")
        } else {
            self.texts.into_iter().next_back().unwrap_or_default()
        };
        let elapsed = self.started.elapsed();
        Outcome { end, text, turns: self.turns, usage: self.usage, model: self.model, elapsed, failure: None }
    }

    /// The same where the model could not be asked any more.
    pub(super) fn fail(self, failure: ProviderError) -> Outcome {
        Outcome { failure: Some(failure), ..self.close(End::Failed) }
    }
}
