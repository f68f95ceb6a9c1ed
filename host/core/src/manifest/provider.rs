//! `[provider]`: the model and who runs it. No default of a vendor is known here; `None` means
//! the vendor's own.

use std::time::Duration;

use serde_json::{Map, Value};

use super::catalogue::{PRICES, PROVIDER, SECRET};
use super::entry::{Entry, Located};
use super::json;
use super::secret::{SecretSource, TextOrSecret, check_header};
use super::section::Section;
use crate::limit::Limits;

/// The vendor whose API is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderName {
    /// OpenAI's chat completions, and every server that is compatible with them.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Google's `generateContent`.
    Gemini,
    /// Ollama's chat.
    Ollama,
    /// OpenRouter's chat completions.
    OpenRouter,
}

/// The providers, as program.toml calls them.
pub(super) const NAMES: &[(&str, ProviderName)] = &[
    ("openai", ProviderName::OpenAi),
    ("anthropic", ProviderName::Anthropic),
    ("gemini", ProviderName::Gemini),
    ("ollama", ProviderName::Ollama),
    ("openrouter", ProviderName::OpenRouter),
];

/// Which of OpenAI's two formats is spoken, by it and by servers that are compatible with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFormat {
    /// `POST /responses`, on which OpenAI's current models take tools.
    Responses,
    /// `POST /chat/completions`, which most other servers speak.
    Chat,
}

/// The formats, as program.toml calls them.
pub(super) const FORMATS: &[(&str, ApiFormat)] =
    &[("responses", ApiFormat::Responses), ("chat", ApiFormat::Chat)];

/// How much a model is to think before it answers, in words that fit every vendor. Each provider sends what comes
/// closest to it among what its models take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Not at all, where the model can be asked for that.
    None,
    /// As little as it can.
    Minimal,
    /// A little.
    Low,
    /// What fits most tasks.
    Medium,
    /// Much.
    High,
    /// More than that.
    XHigh,
    /// As much as it can.
    Max,
}

/// The efforts, as program.toml calls them.
pub(super) const EFFORTS: &[(&str, Effort)] = &[
    ("none", Effort::None),
    ("minimal", Effort::Minimal),
    ("low", Effort::Low),
    ("medium", Effort::Medium),
    ("high", Effort::High),
    ("xhigh", Effort::XHigh),
    ("max", Effort::Max),
];

impl Effort {
    /// As program.toml calls it, and most vendors.
    pub fn as_str(self) -> &'static str {
        EFFORTS.iter().find(|(_, effort)| *effort == self).map_or("", |(text, _)| text)
    }
}

/// `[provider]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Provider {
    /// The vendor whose API is spoken.
    pub name: Located<ProviderName>,
    /// Which of OpenAI's formats; `None`: that of its own endpoint for it, and for all others `chat`.
    pub format: Option<ApiFormat>,
    /// The model's name as sent.
    pub model: Option<String>,
    /// For small decisions, such as a classification; `None`: `model`.
    pub model_fast: Option<String>,
    /// For the work itself; `None`: `model`.
    pub model_complex: Option<String>,
    /// Where the API is, such as `http://localhost:8080/v1`; no slash at its end.
    pub base_url: Option<Located<String>>,
    /// Where the key is kept; `None`: the vendor's usual environment variable.
    pub api_key: Option<SecretSource>,
    /// Sent with every request, in the order of the file.
    pub headers: Vec<(String, TextOrSecret)>,
    /// Laid over the JSON of every request, objects key by key.
    pub extra_body: Map<String, Value>,
    /// Whether answers come in pieces.
    pub stream: bool,
    /// How much the model is to think; `None`: what the vendor thinks right.
    pub effort: Option<Effort>,
    /// Tokens of one answer.
    pub max_tokens: Option<u32>,
    /// Tokens that the model reads and writes at once; `None`: what is known of it, or learnt.
    pub context_window: Option<u32>,
    /// For one answer, from request to last byte.
    pub timeout: Duration,
    /// Until the connection stands.
    pub connect_timeout: Duration,
    /// Until a streamed answer begins.
    pub first_byte_timeout: Duration,
    /// Between two pieces of a streamed answer.
    pub idle_timeout: Duration,
    /// Attempts after the first, where a failure may pass (429, 5xx, no connection). `None`: 3, and in a task that
    /// has turns already as many as a vendor needs to recover, for minutes.
    pub max_retries: Option<u32>,
    /// What models cost, by their names.
    pub prices: Vec<(String, Price)>,
}

/// What a model costs, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Tokens that it reads.
    pub input: f64,
    /// Tokens that it writes.
    pub output: f64,
    /// Tokens read from the prompt cache; `None`: as `input`.
    pub cached: Option<f64>,
    /// Tokens put into the prompt cache; `None`: as `input`.
    pub stored: Option<f64>,
}

impl Price {
    fn read(entry: &Entry<'_>) -> Option<Self> {
        let section = entry.section(&PRICES)?;
        let input = section.require("input", Entry::price);
        let output = section.require("output", Entry::price);
        let (cached, stored) = (section.get("cached", Entry::price), section.get("stored", Entry::price));
        Some(Self { input: input?, output: output?, cached, stored })
    }
}

impl ProviderName {
    /// As program.toml calls it.
    pub fn as_str(self) -> &'static str {
        NAMES.iter().find(|(_, name)| *name == self).map_or("", |(text, _)| text)
    }
}

impl Provider {
    /// Ten minutes: what the vendors' own clients wait for one answer.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(10);
    /// Five minutes: a model on the same machine may read that long.
    pub const DEFAULT_FIRST_BYTE_TIMEOUT: Duration = Duration::from_mins(5);
    /// Two minutes: vendors send a sign of life every few seconds.
    pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_mins(2);
    /// Ten seconds: any host that is up answers sooner.
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
    /// Beyond this a person should decide.
    pub(crate) const MAX_MAX_RETRIES: u32 = 20;
    /// No model writes more in one answer.
    pub(crate) const MAX_MAX_TOKENS: u32 = 10_000_000;

    pub(super) fn read(root: &Section<'_>) -> Option<Self> {
        let section = root.get("provider", |entry| entry.section(&PROVIDER))?;
        let name = section.require("name", |entry| entry.located(|entry| entry.one_of(NAMES)));
        let time =
            |key| section.get(key, |entry| entry.duration(Duration::from_millis(1)..=Limits::MAX_TIME));
        let count = |key, range| section.get(key, |entry| entry.count(range));
        let of_openai = |entry: &Entry<'_>| {
            let is_other = name.as_ref().is_some_and(|name| name.value != ProviderName::OpenAi);
            if is_other {
                return entry.reject("expected `name = \"openai\"` beside it: the others have one format");
            }
            entry.one_of(FORMATS)
        };
        let headers = section.get("headers", |entry| entry.texts_and_secrets(&SECRET, check_header));
        let read = Self {
            format: section.get("format", of_openai),
            model: section.get("model", Entry::text),
            model_fast: section.get("model_fast", Entry::text),
            model_complex: section.get("model_complex", Entry::text),
            base_url: section.get("base_url", |entry| entry.located(base_url)),
            api_key: section.get("api_key", |entry| entry.secret(&SECRET)),
            headers: headers.unwrap_or_default(),
            extra_body: section.get("extra_body", json::object).unwrap_or_default(),
            stream: section.get("stream", Entry::flag).unwrap_or(true),
            effort: section.get("effort", |entry| entry.one_of(EFFORTS)),
            max_tokens: count("max_tokens", 1..=Self::MAX_MAX_TOKENS),
            context_window: count("context_window", 1..=Self::MAX_MAX_TOKENS),
            timeout: time("timeout").unwrap_or(Self::DEFAULT_TIMEOUT),
            first_byte_timeout: time("first_byte_timeout").unwrap_or(Self::DEFAULT_FIRST_BYTE_TIMEOUT),
            idle_timeout: time("idle_timeout").unwrap_or(Self::DEFAULT_IDLE_TIMEOUT),
            prices: section.get("prices", prices).unwrap_or_default(),
            connect_timeout: time("connect_timeout").unwrap_or(Self::DEFAULT_CONNECT_TIMEOUT),
            max_retries: count("max_retries", 0..=Self::MAX_MAX_RETRIES),
            name: name?,
        };
        Some(read)
    }
}

fn prices(entry: &Entry<'_>) -> Option<Vec<(String, Price)>> {
    let entries = entry.entries()?;
    Some(entries.iter().filter_map(|(name, entry)| Some((name.value.clone(), Price::read(entry)?))).collect())
}

fn base_url(entry: &Entry<'_>) -> Option<String> {
    entry.base_url().map(|url| url.trim_end_matches('/').to_owned())
}
