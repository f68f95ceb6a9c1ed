//! The settings of a provider: plain values with defaults. Reads no file and no environment variable.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Map, Value};

use super::patience::Patience;
use haft_core::model::{ApiFormat, Effort};
use haft_core::usage::{Cost, Usage};

/// The settings of a provider. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// A name of [`PROVIDERS`](super::PROVIDERS).
    pub kind: String,
    /// The base URL of requests: `http` or `https`, including the API version (`http://127.0.0.1:8080/v1`). A query
    /// is kept. `None`: the base URL of the kind.
    pub base_url: Option<String>,
    /// The API key; local servers need none.
    pub api_key: Option<SecretString>,
    /// The default model.
    pub model: String,
    /// The model for small decisions; `None`: `model`.
    pub model_fast: Option<String>,
    /// Whether responses are streamed.
    pub stream: bool,
    /// Which API of OpenAI, or of a compatible server, is used. `None`: `Responses` at the base URL of the kind,
    /// `Chat` elsewhere. Other kinds ignore it.
    pub format: Option<ApiFormat>,
    /// The amount of the model's thinking; `None` for the vendor's default.
    pub effort: Option<Effort>,
    /// The maximum number of output tokens of one answer; `None`: the vendor's default.
    pub max_tokens: Option<u32>,
    /// The context window in tokens, read and written, which limits the sent conversation. `None`: the published
    /// value, or the value in an error message of the vendor. Ollama allocates this size.
    pub context_window: Option<u32>,
    /// The prices of models, by their names in requests.
    pub prices: BTreeMap<String, Prices>,
    /// The timeouts.
    pub timeouts: Timeouts,
    /// The conditions for repeating a request.
    pub patience: Patience,
    /// Headers of every request, which replace haft's headers of these names. The values are handled as secrets:
    /// some gateways require their key in a header.
    pub headers: Vec<(String, SecretString)>,
    /// Merged into the body of every request (`temperature`, `max_completion_tokens`, …), object by object.
    pub extra: Map<String, Value>,
}

impl ProviderSettings {
    /// Returns the settings of `kind` with its base URL, no key and the default limits.
    pub fn new(kind: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            base_url: None,
            api_key: None,
            model: model.into(),
            model_fast: None,
            stream: true,
            format: None,
            effort: None,
            max_tokens: None,
            context_window: None,
            prices: BTreeMap::new(),
            timeouts: Timeouts::default(),
            patience: Patience::default(),
            headers: Vec::new(),
            extra: Map::new(),
        }
    }
}

/// The timeouts of a request. Each attempt has the full times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the connection, including TLS.
    pub connect: Duration,
    /// For the start of a streamed response.
    pub first_byte: Duration,
    /// Between two pieces of a streamed response.
    pub idle: Duration,
    /// For the complete response.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            // A server that has not accepted within this time is unavailable.
            connect: Duration::from_secs(10),
            // A small model on two cores takes minutes to read a long prompt for the first time.
            first_byte: Duration::from_mins(5),
            // Vendors send a keep-alive every few seconds, small models a word every second.
            idle: Duration::from_mins(2),
            // The timeout of the vendors' own clients for one response.
            total: Duration::from_mins(10),
        }
    }
}

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

/// Prefixes of names with tokens. Of two matching prefixes, the longer one is first.
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
    fn a_turn_costs_what_its_tokens_cost() {
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
