//! The usage of models: tokens and cost. Counts without limits.

mod cost;

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

pub use self::cost::Cost;

/// The tokens and the cost of one or more turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens, including cached ones.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// How many input tokens were read from the vendor's prompt cache.
    pub cached: u64,
    /// How many input tokens were written to that cache, if the vendor charges for it.
    pub stored: u64,
    /// The cost; of several turns, the sum of the known costs. `None` if no cost is known.
    pub cost: Option<Cost>,
}

impl Usage {
    /// Returns the input and output tokens together.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cached = self.cached.saturating_add(other.cached);
        self.stored = self.stored.saturating_add(other.stored);
        self.cost = match (self.cost, other.cost) {
            (Some(first), Some(second)) => Some(first + second),
            (first, second) => first.or(second),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_adds_up_and_so_does_what_is_known_of_its_cost() {
        let usage = |cost| Usage { input: 7, output: 2, cached: 3, stored: 1, cost };
        let mut sum = Usage::default();
        for cost in [None, Some(Cost::of_dollars(0.25)), None, Some(Cost::of_dollars(0.5))] {
            sum += usage(cost);
        }
        assert_eq!((sum.input, sum.output, sum.cached, sum.stored), (28, 8, 12, 4));
        assert_eq!(sum.cost, Some(Cost::of_dollars(0.75)));
        assert_eq!(sum.total(), 36);
    }
}
