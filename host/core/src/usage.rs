//! The usage of models: tokens and cost. Amounts of money are summed exactly. Counts without limits.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The tokens and the cost of one or more turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens, including cached ones.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// The number of input tokens read from the vendor's prompt cache.
    pub cached: u64,
    /// The number of input tokens written to that cache, if the vendor charges for it.
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

/// The number of parts of a dollar: $0.000001 per million tokens is one part per token.
const PARTS: f64 = 1e12;

/// An amount of US dollars, the currency of all vendors. Counted in millionths of a millionth, so that sums are
/// exact; serialised as a number of dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(u64);

impl Cost {
    /// Converts `dollars`; an invalid amount is zero.
    pub fn of_dollars(dollars: f64) -> Self {
        // Saturates: negative and NaN are 0, the largest is 18 million dollars.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates as wanted")]
        let parts = (dollars * PARTS).round() as u64;
        Self(parts)
    }

    /// Returns the amount in dollars.
    pub fn dollars(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "an amount to be shown")]
        let parts = self.0 as f64;
        parts / PARTS
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}

impl fmt::Display for Cost {
    /// Writes `$0.0123`: four decimal places, a hundredth of a cent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.4}", self.dollars())
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::of_dollars)
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
