//! The totals of a run so far: turns, tokens, cost, also of what others spend for it. Records the outcome, and does not
//! decide it.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use super::{End, Outcome};
use crate::provider::{ProviderError, Turn, Usage};
use haft_core::tool::{AgentUse, Meter, Most, UsedUp};

/// What a run has come to so far.
pub(super) struct Totals {
    started: Instant,
    texts: Vec<String>,
    turns: u32,
    usage: Usage,
    model: String,
    /// The first model whose turn has no price.
    unpriced: Option<String>,
    /// Whether somebody was asked who told no tokens.
    is_uncounted: bool,
    /// Where it is counted too, with what is used by agents that are called as tools.
    meter: Meter,
    caller: Meter,
}

impl Totals {
    /// Of a run that may use `most` and counts for `caller`.
    pub(super) fn new(model: &str, caller: &Meter, most: Most) -> Self {
        Self {
            started: Instant::now(),
            texts: Vec::new(),
            turns: 0,
            usage: Usage::default(),
            model: model.to_owned(),
            unpriced: None,
            is_uncounted: false,
            meter: Meter::of_run(caller, most),
            caller: caller.clone(),
        }
    }

    pub(super) fn count(&mut self, turn: &Turn) {
        self.turns += 1;
        self.model.clone_from(&turn.model);
        self.texts.push(turn.reply.text.clone());
        self.meter.turn(&turn.model, turn.usage);
        self.note(&turn.model, turn.usage);
    }

    /// Counts what `model` was asked besides the turns of this run, such as for a summary of it.
    pub(super) fn add(&mut self, model: &str, usage: Usage) {
        self.meter.add(model, usage);
        self.note(model, usage);
    }

    /// Counts what answers of `model` cost that could not be used; nothing where they told no cost.
    pub(super) fn waste(&mut self, model: &str, usage: Usage) {
        if usage != Usage::default() {
            self.add(model, usage);
        }
    }

    fn note(&mut self, model: &str, usage: Usage) {
        self.usage += usage;
        self.is_uncounted |= usage.total() == 0;
        if usage.cost.is_none() {
            self.unpriced.get_or_insert_with(|| model.to_owned());
        }
    }

    /// What calls are to count for.
    pub(super) fn meter(&self) -> Meter {
        self.meter.clone()
    }

    fn agents(&self) -> BTreeMap<String, AgentUse> {
        self.meter.agents()
    }

    /// Tokens and cost so far, with those of the agents that were called.
    pub(super) fn usage(&self) -> Usage {
        let mut usage = self.usage;
        self.agents().values().for_each(|agent| usage += agent.usage);
        usage
    }

    /// A model whose price is not known.
    pub(super) fn unpriced(&self) -> Option<String> {
        let of_agents = || self.agents().into_values().find_map(|agent| agent.unpriced);
        self.unpriced.clone().or_else(of_agents)
    }

    /// Whether there are tokens that nobody told.
    pub(super) fn is_uncounted(&self) -> bool {
        self.is_uncounted || self.agents().values().any(|agent| agent.is_uncounted)
    }

    /// Why the run that this one works for may use no more; `None` while it may.
    pub(super) fn caller_used_up(&self) -> Option<UsedUp> {
        self.caller.used_up()
    }

    /// What the model said last.
    pub(super) fn last_words(&self) -> &str {
        self.texts.last().map_or("", String::as_str)
    }

    /// The last words where the model came to an end by itself, else all that it said on the way.
    pub(super) fn close(self, end: End) -> Outcome {
        let (usage, agents) = (self.usage(), self.agents());
        let text = if end.is_resumable() && end != End::Invalid {
            let texts: Vec<_> = self.texts.into_iter().filter(|text| !text.trim().is_empty()).collect();
            texts.join("\n\n")
        } else {
            self.texts.into_iter().next_back().unwrap_or_default()
        };
        let elapsed = self.started.elapsed();
        let (turns, model) = (self.turns, self.model);
        Outcome { end, text, turns, usage, model, elapsed, failure: None, output: None, detail: None, agents }
    }

    /// The same with the value that was asked for.
    pub(super) fn close_with(self, end: End, output: Option<Value>) -> Outcome {
        Outcome { output, ..self.close(end) }
    }

    /// The same with why it ended so.
    pub(super) fn close_because(self, end: End, detail: String) -> Outcome {
        Outcome { detail: Some(detail), ..self.close(end) }
    }

    /// The same where the model could not be asked any more.
    pub(super) fn fail(self, failure: ProviderError) -> Outcome {
        Outcome { failure: Some(failure), ..self.close(End::Failed) }
    }
}
