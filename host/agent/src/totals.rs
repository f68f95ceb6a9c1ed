//! The totals of a run: turns, tokens and cost, including the agents that it called. Records the outcome and does
//! not decide it.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use super::{End, Outcome};
use crate::provider::{ProviderError, Turn, Usage};
use haft_core::tool::{AgentUse, Meter, Most, UsedUp};

/// The totals of a run so far.
pub(super) struct Totals {
    started: Instant,
    texts: Vec<String>,
    turns: u32,
    usage: Usage,
    model: String,
    /// The first model without a known price.
    unpriced: Option<String>,
    /// Whether a provider reported no tokens.
    is_uncounted: bool,
    /// The meter that also counts the agents called as tools.
    meter: Meter,
    caller: Meter,
}

impl Totals {
    /// Starts the totals of a run with the limits `most`, which also counts for `caller`.
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

    /// Counts a request to `model` beside the turns of this run, such as a summary.
    pub(super) fn add(&mut self, model: &str, usage: Usage) {
        self.meter.add(model, usage);
        self.note(model, usage);
    }

    /// Counts unusable responses of `model`; ignores those without usage.
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

    /// Returns the meter for calls.
    pub(super) fn meter(&self) -> Meter {
        self.meter.clone()
    }

    fn agents(&self) -> BTreeMap<String, AgentUse> {
        self.meter.agents()
    }

    /// Returns the tokens and the cost so far, including called agents.
    pub(super) fn usage(&self) -> Usage {
        let mut usage = self.usage;
        self.agents().values().for_each(|agent| usage += agent.usage);
        usage
    }

    /// Returns a model without a known price.
    pub(super) fn unpriced(&self) -> Option<String> {
        let of_agents = || self.agents().into_values().find_map(|agent| agent.unpriced);
        self.unpriced.clone().or_else(of_agents)
    }

    /// Whether a provider reported no tokens.
    pub(super) fn is_uncounted(&self) -> bool {
        self.is_uncounted || self.agents().values().any(|agent| agent.is_uncounted)
    }

    /// Returns why the calling run allows no further usage; `None` while it allows some.
    pub(super) fn caller_used_up(&self) -> Option<UsedUp> {
        self.caller.used_up()
    }

    /// Returns the latest text of the model.
    pub(super) fn last_words(&self) -> &str {
        self.texts.last().map_or("", String::as_str)
    }

    /// Closes the run, with the last text if the model came to an end, otherwise with all texts.
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

    /// Closes the run with the structured answer.
    pub(super) fn close_with(self, end: End, output: Option<Value>) -> Outcome {
        Outcome { output, ..self.close(end) }
    }

    /// Closes the run with an explanation.
    pub(super) fn close_because(self, end: End, detail: String) -> Outcome {
        Outcome { detail: Some(detail), ..self.close(end) }
    }

    /// Closes the run after a failure of the provider.
    pub(super) fn fail(self, failure: ProviderError) -> Outcome {
        Outcome { failure: Some(failure), ..self.close(End::Failed) }
    }
}
