//! The outcome of a run, and its totals until then. Distinguishes a run that ended early from a finished one, and has
//! the results of both. A task that reaches a limit in dollars or tokens ends and can be continued. haft refuses to
//! limit an uncounted quantity: the cost of a model without a known price, or the tokens of a server that reports none.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::provider::{ProviderError, Turn, Usage};
use haft_core::tool::{AgentUse, Meter, Most, UsedUp};

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The end of the run.
    pub end: End,
    /// The final text. If the run ended in the middle of the task, all text of the model, with an empty line
    /// between turns. May be empty.
    pub text: String,
    /// The number of model turns.
    pub turns: u32,
    /// Tokens of all turns, including those of [`Self::agents`].
    pub usage: Usage,
    /// The model of the last turn, as the provider reports it.
    pub model: String,
    /// The time from the prompt to the end.
    pub elapsed: Duration,
    /// For [`End::Failed`]: why the model could not be asked.
    pub failure: Option<ProviderError>,
    /// The answer, valid against [`AgentSettings::output`](crate::AgentSettings::output), if a schema was set and
    /// the end is [`End::Final`].
    pub output: Option<Value>,
    /// For [`End::Budget`]: what was spent. For [`End::Invalid`]: the errors in the last answer.
    pub detail: Option<String>,
    /// The usage of the agents that were called as tools, by name.
    pub agents: BTreeMap<String, AgentUse>,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The model finished its answer.
    Final,
    /// The limit of output tokens cut the final text off.
    Length,
    /// The provider's filter withheld the answer or the rest of it.
    Filtered,
    /// The model declined; the text gives its reason.
    Refused,
    /// The model requested another turn, but the maximum number of turns was reached.
    TurnCap,
    /// The model requested another turn, but the budget was spent.
    Budget,
    /// The model gave no answer that is valid against the schema, in all attempts.
    Invalid,
    /// The session was cancelled.
    Cancelled,
    /// The model could no longer be asked; [`Outcome::failure`] has the reason.
    Failed,
}

impl End {
    /// Returns the name of the end in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Final => "done",
            Self::Length => "cut off",
            Self::Filtered => "filtered",
            Self::Refused => "declined",
            Self::TurnCap => "turn cap",
            Self::Budget => "budget",
            Self::Invalid => "no valid answer",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Returns whether the task is unfinished and can be continued.
    pub fn is_resumable(self) -> bool {
        matches!(self, Self::TurnCap | Self::Budget | Self::Invalid | Self::Cancelled | Self::Failed)
    }
}

impl Outcome {
    /// Returns the reason why there is no complete answer; `None` for a complete answer.
    pub fn shortfall(&self) -> Option<String> {
        let detail = self.detail.as_deref().unwrap_or_default();
        let text = match self.end {
            End::Final => return None,
            End::TurnCap => {
                return Some(format!("reached max turns ({}) without final response", self.turns));
            }
            End::Budget => return Some(format!("the task is not done: {detail}")),
            End::Invalid => {
                return Some(format!("the answer does not match the schema: {detail}"));
            }
            End::Length => "the answer was cut off at the output token limit",
            End::Filtered => "the provider's content filter blocked the answer",
            End::Refused => "the model declined",
            End::Cancelled => "cancelled",
            End::Failed => return Some(self.failure.as_ref().map_or_else(String::new, ToString::to_string)),
        };
        Some(text.to_owned())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shortfall() {
            None => f.write_str(&self.text),
            Some(why) if self.text.is_empty() => write!(f, "[{why}]"),
            Some(why) => write!(f, "{}\n\n[{why}]", self.text),
        }
    }
}

pub(super) struct Totals {
    started: Instant,
    texts: Vec<String>,
    turns: u32,
    model: String,
    budget: Most,
    /// Counts the run and the agents that it calls as tools.
    pub(super) meter: Meter,
    caller: Meter,
}

impl Totals {
    /// Starts the totals of a run with the limits `budget`, which also counts for `caller`.
    pub(super) fn new(model: &str, caller: &Meter, budget: Most) -> Self {
        Self {
            started: Instant::now(),
            texts: Vec::new(),
            turns: 0,
            model: model.to_owned(),
            budget,
            meter: Meter::of_run(caller, budget),
            caller: caller.clone(),
        }
    }

    pub(super) fn count(&mut self, turn: &Turn) {
        self.turns += 1;
        self.model.clone_from(&turn.model);
        self.texts.push(turn.reply.text.clone());
        self.meter.turn(&turn.model, turn.usage);
    }

    /// Counts a request to `model` beside the turns of this run, such as a summary.
    pub(super) fn add(&self, model: &str, usage: Usage) {
        self.meter.add(model, usage);
    }

    /// Counts unusable responses of `model`; ignores those without usage.
    pub(super) fn waste(&self, model: &str, usage: Usage) {
        if usage != Usage::default() {
            self.add(model, usage);
        }
    }

    /// Returns the reason why no further turn may be requested; `None` within the budget.
    pub(super) fn used_up(&self) -> Option<String> {
        let used = self.meter.all();
        if let Some(most) = self.budget.cost {
            if let Some(model) = used.unpriced {
                return Some(format!("`max_cost` cannot be enforced: {}", no_price(&model)));
            }
            let spent = used.usage.cost.unwrap_or_default();
            if spent >= most {
                return Some(format!("the budget is used up: {spent} of {most}"));
            }
        }
        if let Some(used_up) = self.caller.used_up() {
            return Some(of_caller(&used_up));
        }
        let most = self.budget.tokens?;
        if used.is_uncounted {
            return Some("`max_tokens_total` cannot be enforced: the provider does not report tokens".into());
        }
        let tokens = used.usage.total();
        (tokens >= most).then(|| format!("the budget is used up: {tokens} of {most} tokens"))
    }

    /// Returns the latest text of the model.
    pub(super) fn last_words(&self) -> &str {
        self.texts.last().map_or("", String::as_str)
    }

    /// Closes the run, with the last text if the model finished, otherwise with all texts.
    pub(super) fn close(self, end: End) -> Outcome {
        let (usage, agents) = (self.meter.all().usage, self.meter.agents());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Cost;

    fn used_up(budget: Most, usage: &[Usage]) -> Option<String> {
        let totals = Totals::new("asked", &Meter::default(), budget);
        for usage in usage {
            totals.add("small", *usage);
        }
        totals.used_up()
    }

    fn usage(tokens: u64, dollars: Option<f64>) -> Usage {
        Usage { input: tokens, cost: dollars.map(Cost::of_dollars), ..Usage::default() }
    }

    #[test]
    fn a_budget_is_used_up_when_it_is_spent() {
        let tokens = Most { tokens: Some(100), cost: None };
        assert_eq!(used_up(tokens, &[usage(99, None)]), None);
        let why = used_up(tokens, &[usage(60, None), usage(40, None)]);
        assert_eq!(why.as_deref(), Some("the budget is used up: 100 of 100 tokens"));
        let cost = Most { cost: Some(Cost::of_dollars(0.5)), tokens: None };
        assert_eq!(used_up(cost, &[usage(9, Some(0.49))]), None);
        let why = used_up(cost, &[usage(9, Some(0.49)), usage(9, Some(0.02))]);
        assert_eq!(why.as_deref(), Some("the budget is used up: $0.5100 of $0.5000"));
        assert_eq!(used_up(Most::default(), &[usage(u64::MAX, None)]), None);
        let nothing = Most { cost: Some(Cost::of_dollars(0.0)), tokens: None };
        assert!(used_up(nothing, &[]).is_some());
    }

    /// An uncounted quantity ends the run.
    #[test]
    fn what_is_not_known_ends_it_too() {
        let cost = Most { cost: Some(Cost::of_dollars(0.5)), tokens: None };
        let why = used_up(cost, &[usage(9, Some(0.1)), usage(9, None)]).unwrap();
        assert!(why.contains("the price of `small` is unknown") && why.contains("[provider.prices"), "{why}");
        let tokens = Most { tokens: Some(100), cost: None };
        assert!(used_up(tokens, &[usage(0, None)]).unwrap().contains("does not report tokens"));
    }
    /// A budget of the calling run ends the run, with that reason.
    #[test]
    fn a_budget_of_the_caller_ends_it_in_true_words() {
        let caller =
            Meter::of_run(&Meter::default(), Most { cost: Some(Cost::of_dollars(0.5)), tokens: Some(50) });
        let totals = Totals::new("asked", &caller.of_agent("a"), Most::default());
        assert_eq!(totals.used_up(), None);
        totals.add("asked", usage(9, None));
        let why = totals.used_up().unwrap();
        assert!(
            why.starts_with("`max_cost` of the calling run cannot be enforced: the price of `asked`"),
            "{why}"
        );
        totals.add("asked", usage(50, None));
        let why = totals.used_up().unwrap();
        assert_eq!(why, "the budget of the calling run is used up");
        assert!(of_caller(&UsedUp::Uncounted).contains("does not report tokens"));
    }
}
