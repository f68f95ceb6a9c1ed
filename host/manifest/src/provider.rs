//! `[provider]`: the model and its vendor. Contains no default of a vendor; `None` selects the vendor's default.

use std::time::Duration;

use serde_json::{Map, Value};

use super::entry::{Entry, Located};
use super::secret::{HEADERS, SecretSource, TextOrSecret, headers};
use super::section::Section;
use super::table::{FromValue, SHORTEST, choices, table};
use super::values::{URL, json_object};
use haft_core::limit::Limits;
use haft_core::model::{ApiFormat, Effort};
use haft_core::words;

words! {
    /// The vendor whose API is spoken.
    pub enum ProviderName {
        /// OpenAI's chat completions, and every server that is compatible with them.
        OpenAi = "openai",
        /// Anthropic's messages.
        Anthropic = "anthropic",
        /// Google's `generateContent`.
        Gemini = "gemini",
        /// Ollama's chat.
        Ollama = "ollama",
        /// OpenRouter's chat completions.
        OpenRouter = "openrouter",
    }
}

choices! { ProviderName }

table! {
    /// The model and who runs it.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Provider = "[provider]" {
        /// the API: `openai`, `anthropic`, `gemini`, `ollama` or `openrouter`
        #[also("kind", "type", "vendor")]
        pub name: Located<ProviderName>,
        /// for `openai`: `responses` or `chat`; default `responses` for OpenAI's own endpoint, `chat` for
        /// others
        #[read(section ApiFormat::KIND, format)]
        #[also("api", "dialect", "wire_api")]
        pub format: Option<ApiFormat> = None,
        /// the model's name; default the provider's own
        pub model: Option<String> = None,
        /// the model for small decisions; default `model`
        #[also("fast_model", "small_model")]
        pub model_fast: Option<String> = None,
        /// the model for tasks; default `model`
        #[also("complex_model", "large_model")]
        pub model_complex: Option<String> = None,
        // Without a slash at its end.
        /// default the provider's own
        #[read(URL, |entry| entry.located(base_url))]
        #[also("url", "endpoint", "api_base")]
        pub base_url: Option<Located<String>> = None,
        /// where the key is stored: `{ env = "…" }`, `{ file = "…" }` or `{ keyring = "…" }`
        #[also("key", "token", "apikey")]
        pub api_key: Option<SecretSource> = None,
        /// sent with every request
        #[read(HEADERS, headers)]
        pub headers: Vec<(String, TextOrSecret)> = Vec::new(),
        // Laid over it, objects key by key.
        /// merged into every request's JSON, such as `temperature`
        #[read(Kind::Json, json_object)]
        #[also("extra", "options", "temperature", "body")]
        pub extra_body: Map<String, Value> = Map::new(),
        /// whether answers are streamed; default true
        #[also("streaming")]
        pub stream: bool = true,
        /// how much the model thinks: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`;
        /// default the provider's own
        #[also("reasoning_effort", "reasoning", "thinking", "think")]
        pub effort: Option<Effort> = None,
        /// maximum tokens of an answer; default the provider's own
        #[read(count 1..=Self::MAX_MAX_TOKENS)]
        #[also("max_output_tokens")]
        pub max_tokens: Option<u32> = None,
        /// tokens of input and output together; default from haft's table of models, or from the provider's
        /// error
        #[read(count 1..=Self::MAX_MAX_TOKENS)]
        #[also("num_ctx", "context", "context_length")]
        pub context_window: Option<u32> = None,
        // What the vendors' own clients wait for one answer, from request to last byte.
        /// time limit of an answer; default `600s`
        #[read(time SHORTEST..=Limits::MAX_TIME)]
        #[also("request_timeout")]
        pub timeout: Duration = Duration::from_mins(10),
        // Any host that is up answers sooner.
        /// time limit of the connection; default `10s`
        #[read(time SHORTEST..=Limits::MAX_TIME)]
        pub connect_timeout: Duration = Duration::from_secs(10),
        // A model on the same machine may read that long.
        /// time limit until a streamed answer starts; default `300s`
        #[read(time SHORTEST..=Limits::MAX_TIME)]
        pub first_byte_timeout: Duration = Duration::from_mins(5),
        // Vendors send a sign of life every few seconds.
        /// time limit between two chunks of a streamed answer; default `120s`
        #[read(time SHORTEST..=Limits::MAX_TIME)]
        #[also("read_timeout")]
        pub idle_timeout: Duration = Duration::from_mins(2),
        // Attempts after the first, where a failure may pass (429, 5xx, no connection). With more a person should decide.
        /// retries after a temporary failure; default 3, but retries for 10 minutes in a task that has turns
        /// already
        #[read(count 0..=20)]
        #[also("retries")]
        pub max_retries: Option<u32> = None,
        /// prices of tokens, by model
        #[read(Kind::Map(&Price::KIND), prices)]
        #[also("price", "cost", "costs")]
        pub prices: Vec<(String, Price)> = Vec::new(),
    }
}

table! {
    /// Prices of a model, in US dollars per million tokens.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Price = "" {
        /// input tokens
        #[also("prompt")]
        pub input: f64,
        /// output tokens
        #[also("completion")]
        pub output: f64,
        /// tokens read from the prompt cache; default as `input`
        #[also("cache_read")]
        pub cached: Option<f64> = None,
        /// tokens written to the prompt cache; default as `input`
        #[also("cache_write")]
        pub stored: Option<f64> = None,
    }
}

impl Provider {
    /// No model writes more in one answer.
    const MAX_MAX_TOKENS: u32 = 10_000_000;
}

fn format(section: &Section<'_>) -> Option<ApiFormat> {
    // An invalid name is reported by its own reader.
    let name = section.get("name", |entry| entry.raw().as_str());
    let is_other =
        |(word, provider): &(&str, ProviderName)| Some(*word) == name && *provider != ProviderName::OpenAi;
    if section.has("format") && ProviderName::ALL.iter().any(is_other) {
        section.reject("format", "only for `name = \"openai\"`: the other providers have one format");
        return None;
    }
    section.get("format", ApiFormat::from_value)
}

fn prices(entry: &Entry<'_>) -> Option<Vec<(String, Price)>> {
    let entries = entry.entries()?;
    Some(
        entries
            .iter()
            .filter_map(|(name, entry)| Some((name.value.clone(), Price::from_value(entry)?)))
            .collect(),
    )
}

fn base_url(entry: &Entry<'_>) -> Option<String> {
    entry.base_url().map(|url| url.trim_end_matches('/').to_owned())
}
