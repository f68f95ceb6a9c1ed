//! What models used: tokens, and what they cost. Counts, and refuses nothing.

mod cost;

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

pub use self::cost::Cost;

/// Tokens of one or more turns, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
    /// How many of the tokens read came from the vendor's prompt cache.
    pub cached: u64,
    /// How many of the tokens read were put into that cache, where the vendor charges for it.
    pub stored: u64,
    /// The price: of several turns, of those whose price is known. `None` where none is.
    pub cost: Option<Cost>,
}

impl Usage {
    /// Tokens read and written.
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
            (Some(one), Some(two)) => Some(one + two),
            (one, two) => one.or(two),
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
