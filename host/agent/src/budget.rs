//! Limits the cost of a task in dollars and tokens: a task that reaches the limit ends and can be continued.
//! Refuses to limit an uncounted quantity: the cost of a model without a known price, or the tokens of a
//! server that reports none.

use crate::provider::Cost;
use crate::totals::Totals;
use haft_core::tool::{Most, UsedUp};

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
                return Some(format!("`max_cost` cannot be kept: {}", no_price(&model)));
            }
            let spent = usage.cost.unwrap_or_default();
            if spent >= most {
                return Some(format!("it has cost {spent} of a budget of {most}"));
            }
        }
        if let Some(used_up) = totals.caller_used_up() {
            return Some(of_caller(&used_up));
        }
        let most = self.tokens?;
        if totals.is_uncounted() {
            return Some("`max_tokens_total` cannot be kept: the provider tells no tokens".into());
        }
        let used = usage.total();
        (used >= most).then(|| format!("it has used {used} tokens of a budget of {most}"))
    }
}

/// Returns the message for a limit of the calling run.
fn of_caller(used_up: &UsedUp) -> String {
    match used_up {
        UsedUp::Spent => "the budget is spent of the run that it works for".into(),
        UsedUp::Unpriced(model) => {
            format!("`max_cost` of the run that it works for cannot be kept: {}", no_price(model))
        }
        UsedUp::Uncounted => {
            "`max_tokens_total` of the run that it works for cannot be kept: a provider tells no tokens"
                .into()
        }
    }
}

/// Returns the message for a missing price, with the key of program.toml that sets it.
fn no_price(model: &str) -> String {
    format!("no price of `{model}` is known; `[provider.prices.\"{model}\"]` in program.toml says it")
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
        assert_eq!(why.as_deref(), Some("it has used 100 tokens of a budget of 100"));
        let cost = Budget { cost: Some(Cost::of_dollars(0.5)), tokens: None };
        assert_eq!(cost.used_up(&totals(&[usage(9, Some(0.49))])), None);
        let why = cost.used_up(&totals(&[usage(9, Some(0.49)), usage(9, Some(0.02))]));
        assert_eq!(why.as_deref(), Some("it has cost $0.5100 of a budget of $0.5000"));
        assert_eq!(Budget::default().used_up(&totals(&[usage(u64::MAX, None)])), None);
        let nothing = Budget { cost: Some(Cost::of_dollars(0.0)), tokens: None };
        assert!(nothing.used_up(&totals(&[])).is_some());
    }

    /// An uncounted quantity ends the run.
    #[test]
    fn what_is_not_known_ends_it_too() {
        let cost = Budget { cost: Some(Cost::of_dollars(0.5)), tokens: None };
        let why = cost.used_up(&totals(&[usage(9, Some(0.1)), usage(9, None)])).unwrap();
        assert!(why.contains("no price of `small` is known") && why.contains("[provider.prices"), "{why}");
        let tokens = Budget { tokens: Some(100), cost: None };
        assert!(tokens.used_up(&totals(&[usage(0, None)])).unwrap().contains("tells no tokens"));
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
            why.starts_with("`max_cost` of the run that it works for cannot be kept: no price of `asked`"),
            "{why}"
        );
        totals.add("asked", usage(50, None));
        let why = Budget::default().used_up(&totals).unwrap();
        assert_eq!(why, "the budget is spent of the run that it works for");
        assert!(of_caller(&UsedUp::Uncounted).contains("tells no tokens"));
    }
}
