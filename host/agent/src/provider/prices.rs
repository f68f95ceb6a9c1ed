//! The cost of turns, if the user or the vendor gives the prices of tokens, and the published context windows
//! of the vendors' models. Estimates neither.

use haft_core::usage::{Cost, Usage};

/// The prices of a model, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Tokens read from the prompt cache; `None`: the input price.
    pub cached: Option<f64>,
    /// Tokens written to the prompt cache; `None`: the input price.
    pub stored: Option<f64>,
}

impl Prices {
    /// Returns the cost of `usage`.
    pub fn cost(&self, usage: &Usage) -> Cost {
        let plain = usage.input.saturating_sub(usage.cached).saturating_sub(usage.stored);
        let priced = [
            (plain, self.input),
            (usage.output, self.output),
            (usage.cached, self.cached.unwrap_or(self.input)),
            (usage.stored, self.stored.unwrap_or(self.input)),
        ];
        priced.into_iter().map(|(tokens, price)| times(tokens, price)).sum()
    }
}

/// Returns the cost of `tokens` at `price` dollars a million.
fn times(tokens: u64, price: f64) -> Cost {
    #[expect(clippy::cast_precision_loss, reason = "no turn has 2^53 tokens")]
    let tokens = tokens as f64;
    Cost::of_dollars(tokens * price / 1e6)
}

/// Prefixes of names with tokens; of two matching prefixes, the longer one comes first.
const WINDOWS: &[(&str, u32)] = &[
    ("chatgpt-4o", 128_000),
    ("claude-", 200_000),
    ("gemini-", 1_048_576),
    ("gpt-3.5", 16_385),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4", 8192),
    ("gpt-5", 400_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
];

/// Returns the context window of `model` in tokens, including its output.
pub(super) fn context_window(model: &str) -> Option<u32> {
    // The names of OpenRouter begin with the vendor.
    let name = model.rsplit('/').next().unwrap_or(model);
    WINDOWS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, tokens)| *tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PL01: tokens of each kind have their own price.
    #[test]
    fn pl01_a_turn_costs_what_its_tokens_cost() {
        let usage = Usage { input: 1_000_000, output: 100_000, cached: 600_000, stored: 100_000, cost: None };
        let plain = Prices { input: 3.0, output: 15.0, cached: None, stored: None };
        assert_eq!(plain.cost(&usage), Cost::of_dollars(4.5));
        let cached = Prices { cached: Some(0.3), stored: Some(3.75), ..plain };
        assert_eq!(cached.cost(&usage), Cost::of_dollars(0.9 + 1.5 + 0.18 + 0.375));
    }

    #[test]
    fn amounts_are_sums_of_small_parts_and_never_negative() {
        let tiny: Cost = (0..1000).map(|_| times(1, 0.075)).sum();
        assert_eq!(tiny, Cost::of_dollars(0.000_075));
        assert_eq!(Cost::of_dollars(0.012_345).to_string(), "$0.0123");
        assert_eq!(Cost::of_dollars(-1.0), Cost::default());
        assert_eq!(Cost::of_dollars(f64::NAN), Cost::default());
        let json = serde_json::to_string(&Cost::of_dollars(0.25)).unwrap();
        assert_eq!((json.as_str(), serde_json::from_str::<Cost>(&json).unwrap().dollars()), ("0.25", 0.25));
    }

    #[test]
    fn models_are_known_by_the_beginning_of_their_name() {
        let rows = [
            ("gpt-5-mini-2025-08-07", Some(400_000)),
            ("gpt-4.1-nano", Some(1_047_576)),
            ("gpt-4-0613", Some(8192)),
            ("anthropic/claude-sonnet-4.5", Some(200_000)),
            ("models/gemini-flash-latest", Some(1_048_576)),
            ("openrouter/auto", None),
            ("qwen3:4b", None),
        ];
        for (model, expected) in rows {
            assert_eq!(context_window(model), expected, "{model}");
        }
    }
}
