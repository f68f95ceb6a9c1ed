//! Limits the cost of a task in dollars and tokens: a task that reaches the limit ends and can be continued.
//! Refuses to limit an uncounted quantity: the cost of a model without a known price, or the tokens of a
//! server that reports none.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use crate::provider::{Cost, ProviderError, Turn, Usage};
use crate::{End, Outcome};
use haft_core::tool::{AgentUse, Meter, Most, UsedUp};

/// The maximum cost of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// The limit in dollars; `None`: no limit.
    pub cost: Option<Cost>,
    /// The limit in tokens, read and written together; `None`: no limit.
    pub tokens: Option<u64>,
}

impl Budget {
    /// Returns these limits in the form that the meter of the run enforces for its callees.
    pub(super) fn most(self) -> Most {
        Most { cost: self.cost, tokens: self.tokens }
    }

    /// Returns the reason why no further turn may be requested; `None` within the budget.
    pub(super) fn used_up(&self, totals: &Totals) -> Option<String> {
        let usage = totals.usage();
        if let Some(most) = self.cost {
            if let Some(model) = totals.unpriced() {
                return Some(format!("`max_cost` cannot be enforced: {}", no_price(&model)));
            }
            let spent = usage.cost.unwrap_or_default();
            if spent >= most {
                return Some(format!("the budget is used up: {spent} of {most}"));
            }
        }
        if let Some(used_up) = totals.caller_used_up() {
            return Some(of_caller(&used_up));
        }
        let most = self.tokens?;
        if totals.is_uncounted() {
            return Some("`max_tokens_total` cannot be enforced: the provider does not report tokens".into());
        }
        let used = usage.total();
        (used >= most).then(|| format!("the budget is used up: {used} of {most} tokens"))
    }
}

/// Returns the message for a limit of the calling run.
fn of_caller(used_up: &UsedUp) -> String {
    match used_up {
        UsedUp::Spent => "the budget of the calling run is used up".into(),
        UsedUp::Unpriced(model) => {
            format!("`max_cost` of the calling run cannot be enforced: {}", no_price(model))
        }
        UsedUp::Uncounted => {
            "`max_tokens_total` of the calling run cannot be enforced: a provider does not report tokens"
                .into()
        }
    }
}

/// Returns the message for a missing price, with the key of program.toml that sets it.
fn no_price(model: &str) -> String {
    format!("the price of `{model}` is unknown; set `[provider.prices.\"{model}\"]` in program.toml")
}

// The totals of a run: turns, tokens and cost, including the agents that it called. Records the outcome and does
// not decide it.

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

    /// Returns whether a provider reported no tokens.
    pub(super) fn is_uncounted(&self) -> bool {
        self.is_uncounted || self.agents().values().any(|agent| agent.is_uncounted)
    }

    /// Returns the reason why the calling run allows no further usage; `None` while it allows some.
    pub(super) fn caller_used_up(&self) -> Option<UsedUp> {
        self.caller.used_up()
    }

    /// Returns the latest text of the model.
    pub(super) fn last_words(&self) -> &str {
        self.texts.last().map_or("", String::as_str)
    }

    /// Closes the run, with the last text if the model finished, otherwise with all texts.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Usage;
    use haft_core::tool::Meter;

    fn totals(usage: &[Usage]) -> Totals {
        let mut totals = Totals::new("asked", &Meter::default(), Most::default());
        for usage in usage {
            totals.add("small", *usage);
        }
        totals
    }

    fn usage(tokens: u64, dollars: Option<f64>) -> Usage {
        Usage { input: tokens, cost: dollars.map(Cost::of_dollars), ..Usage::default() }
    }

    #[test]
    fn a_budget_is_used_up_when_it_is_spent() {
        let tokens = Budget { tokens: Some(100), cost: None };
        assert_eq!(tokens.used_up(&totals(&[usage(99, None)])), None);
        let why = tokens.used_up(&totals(&[usage(60, None), usage(40, None)]));
        assert_eq!(why.as_deref(), Some("the budget is used up: 100 of 100 tokens"));
        let cost = Budget { cost: Some(Cost::of_dollars(0.5)), tokens: None };
        assert_eq!(cost.used_up(&totals(&[usage(9, Some(0.49))])), None);
        let why = cost.used_up(&totals(&[usage(9, Some(0.49)), usage(9, Some(0.02))]));
        assert_eq!(why.as_deref(), Some("the budget is used up: $0.5100 of $0.5000"));
        assert_eq!(Budget::default().used_up(&totals(&[usage(u64::MAX, None)])), None);
        let nothing = Budget { cost: Some(Cost::of_dollars(0.0)), tokens: None };
        assert!(nothing.used_up(&totals(&[])).is_some());
    }

    /// An uncounted quantity ends the run.
    #[test]
    fn what_is_not_known_ends_it_too() {
        let cost = Budget { cost: Some(Cost::of_dollars(0.5)), tokens: None };
        let why = cost.used_up(&totals(&[usage(9, Some(0.1)), usage(9, None)])).unwrap();
        assert!(why.contains("the price of `small` is unknown") && why.contains("[provider.prices"), "{why}");
        let tokens = Budget { tokens: Some(100), cost: None };
        assert!(tokens.used_up(&totals(&[usage(0, None)])).unwrap().contains("does not report tokens"));
    }
    /// A budget of the calling run ends the run, with that reason.
    #[test]
    fn a_budget_of_the_caller_ends_it_in_true_words() {
        let caller =
            Meter::of_run(&Meter::default(), Most { cost: Some(Cost::of_dollars(0.5)), tokens: Some(50) });
        let mut totals = Totals::new("asked", &caller.of_agent("a"), Most::default());
        assert_eq!(Budget::default().used_up(&totals), None);
        totals.add("asked", usage(9, None));
        let why = Budget::default().used_up(&totals).unwrap();
        assert!(
            why.starts_with("`max_cost` of the calling run cannot be enforced: the price of `asked`"),
            "{why}"
        );
        totals.add("asked", usage(50, None));
        let why = Budget::default().used_up(&totals).unwrap();
        assert_eq!(why, "the budget of the calling run is used up");
        assert!(of_caller(&UsedUp::Uncounted).contains("does not report tokens"));
    }
}
