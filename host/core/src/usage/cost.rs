//! Amounts of money, with exact sums.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The parts of a dollar: $0.000001 per million tokens is one part a token.
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
