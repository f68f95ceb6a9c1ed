//! Answers an [`Ask`] with a [`Turn`]. The format of a vendor is two pure functions in a file of its own (a
//! `Dialect`); `remote` does the I/O for all vendors and is the only user of the HTTP client. This module runs no
//! tool and does not decide what to ask next.

mod anthropic;
mod ask;
mod calls;
mod codes;
mod conversation;
mod dialect;
mod error;
mod files;
mod gemini;
mod mend;
mod models;
mod ollama;
mod openai;
mod openrouter;
mod output;
mod patience;
mod pieces;
mod reading;
mod remote;
mod responses;
mod schema;
mod settings;
mod thoughts;
mod too_long;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::ask::{Ask, Exchange, Message, Prompt, Reply, RequestedCall, Stop, Turn};
pub use self::error::{Failure, Passing, ProviderError, SettingsError};
pub use self::mend::{Mended, mend};
pub use self::models::{ListedModel, ModelList};
pub use self::ollama::{HOST_VARIABLE as OLLAMA_HOST, host as ollama_host};
pub use self::output::{OutputSchema, OutputSchemaError};
pub use self::patience::Patience;
use self::remote::{Remote, is_vendor};
pub use self::settings::{Prices, ProviderSettings, Timeouts};
pub(crate) use self::too_long::TooLong;
use haft_core::call::Attachment;
use haft_core::event::Events;
pub use haft_core::model::{ApiFormat, Effort};
pub use haft_core::net::Retry;
pub use haft_core::usage::{Cost, Usage};

/// A source of model turns.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Returns the name of the kind, as in [`PROVIDERS`].
    fn name(&self) -> &str;

    /// Returns the default model.
    fn model(&self) -> &str;

    /// Returns the model for small decisions; the default model without another one.
    fn model_fast(&self) -> &str {
        self.model()
    }

    /// Returns the context window of `model`, in tokens read and written, if known.
    fn context_window(&self, _model: &str) -> Option<u32> {
        None
    }

    /// Returns the maximum number of tools in a request.
    fn max_tools(&self) -> usize {
        usize::MAX
    }

    /// Returns the reason why no model can be sent `file`, if known without a request: the vendor's API does not
    /// accept this kind. Whether a certain model accepts the file is decided by the vendor.
    fn refusal(&self, _file: &Attachment) -> Option<String> {
        None
    }

    /// Returns whether `model` supports a schema for its answer ([`Ask::output`]) only in a request without tools.
    fn formats_alone(&self, _model: &str) -> bool {
        false
    }

    /// Requests the next turn. Emits the text of the model as [`Said`](haft_core::event::Event::Said) when it
    /// arrives, and its thinking as [`Thought`](haft_core::event::Event::Thought). A drop of the future cancels
    /// the request.
    async fn turn(&self, ask: &Ask<'_>, events: &Events) -> Result<Turn, ProviderError>;

    /// Checks whether a turn can be requested, without paying for one.
    async fn check(&self) -> Result<(), ProviderError>;

    /// Returns the models that the provider offers; empty if it has no list.
    async fn models(&self) -> Result<ModelList, ProviderError> {
        Ok(ModelList::default())
    }

    /// Returns whether each turn of `model` reports its cost.
    fn tells_cost(&self, _model: &str) -> bool {
        false
    }

    /// Returns whether a turn can be requested; logs the reason as a warning if not.
    async fn is_available(&self) -> bool {
        let checked = self.check().await;
        if let Err(error) = &checked {
            tracing::warn!("{error}");
        }
        checked.is_ok()
    }
}

/// A row of [`PROVIDERS`].
#[derive(Clone, Copy)]
pub struct ProviderKind {
    /// The value of `[provider] name`.
    pub name: &'static str,
    /// The base URL of requests unless `base_url` is set.
    pub base_url: &'static str,
    /// The environment variable that usually holds the API key.
    pub key_variable: &'static str,
    /// Whether requests to [`base_url`](Self::base_url) need a key.
    pub needs_key: bool,
    /// The default model; empty without a default.
    pub model: &'static str,
    /// The default model for small decisions.
    pub model_fast: &'static str,
    /// The maximum number of tools in a request to [`base_url`](Self::base_url); `None`: no limit is published.
    pub max_tools: Option<usize>,
    build: Build,
}

type Build = fn(&'static ProviderKind, ProviderSettings) -> Result<Arc<dyn Provider>, SettingsError>;

/// All kinds of providers, in the order of help and messages. Models are given by names that the vendor moves to
/// newer models, where such names exist.
pub const PROVIDERS: &[ProviderKind] = &[
    ProviderKind {
        name: openai::NAME,
        base_url: "https://api.openai.com/v1",
        key_variable: "OPENAI_API_KEY",
        needs_key: true,
        model: "gpt-5",
        model_fast: "gpt-5-mini",
        max_tools: Some(128),
        build: |kind, settings| match format(kind, &settings) {
            ApiFormat::Responses => Ok(Arc::new(Remote::new(kind, responses::Responses, settings)?)),
            ApiFormat::Chat => {
                Ok(Arc::new(Remote::new(kind, openai::OpenAi { vendor: openai::NAME }, settings)?))
            }
        },
    },
    ProviderKind {
        name: anthropic::NAME,
        base_url: "https://api.anthropic.com/v1",
        key_variable: "ANTHROPIC_API_KEY",
        needs_key: true,
        model: "claude-sonnet-4-5",
        model_fast: "claude-haiku-4-5",
        max_tools: None,
        build: |kind, settings| Ok(Arc::new(Remote::new(kind, anthropic::Anthropic, settings)?)),
    },
    ProviderKind {
        name: gemini::NAME,
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        key_variable: "GEMINI_API_KEY",
        needs_key: true,
        model: "gemini-pro-latest",
        model_fast: "gemini-flash-latest",
        max_tools: Some(128),
        build: |kind, settings| Ok(Arc::new(Remote::new(kind, gemini::Gemini, settings)?)),
    },
    ProviderKind {
        name: ollama::NAME,
        base_url: "http://127.0.0.1:11434",
        key_variable: "OLLAMA_API_KEY",
        needs_key: false,
        model: "",
        model_fast: "",
        max_tools: None,
        build: |kind, settings| Ok(Arc::new(Remote::new(kind, ollama::Ollama, settings)?)),
    },
    ProviderKind {
        name: openrouter::NAME,
        base_url: "https://openrouter.ai/api/v1",
        key_variable: "OPENROUTER_API_KEY",
        needs_key: true,
        model: "openrouter/auto",
        model_fast: "openrouter/auto",
        // The limit of OpenAI, because OpenRouter also routes to its models.
        max_tools: Some(128),
        build: |kind, settings| Ok(Arc::new(Remote::new(kind, openrouter::OpenRouter, settings)?)),
    },
];

/// Returns the configured format, or the usual one of the server.
fn format(kind: &ProviderKind, settings: &ProviderSettings) -> ApiFormat {
    let usual = if is_vendor(kind, settings) { ApiFormat::Responses } else { ApiFormat::Chat };
    settings.format.unwrap_or(usual)
}

/// Returns the kind of provider with this name.
pub fn kind(name: &str) -> Result<&'static ProviderKind, SettingsError> {
    PROVIDERS.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let known: Vec<_> = PROVIDERS.iter().map(|kind| format!("`{}`", kind.name)).collect();
        SettingsError::UnknownKind { kind: name.to_owned(), known: known.join(", ") }
    })
}

/// Creates the provider that `settings` describe. Sends no request.
pub fn build(settings: ProviderSettings) -> Result<Arc<dyn Provider>, SettingsError> {
    let kind = kind(&settings.kind)?;
    (kind.build)(kind, settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MR01: the table builds each of the five kinds.
    #[test]
    fn kinds_have_unique_names_and_usable_defaults() {
        for (index, kind) in PROVIDERS.iter().enumerate() {
            assert!(PROVIDERS[..index].iter().all(|other| other.name != kind.name));
            let settings = ProviderSettings::new(kind.name, "some-model");
            assert_eq!(build(settings).unwrap().name(), kind.name);
            assert_eq!(kind.model.is_empty(), kind.model_fast.is_empty());
        }
        assert_eq!(PROVIDERS.len(), 5);
    }

    /// G01: OpenAI's current models reject tools in chat completions.
    #[test]
    fn openai_s_own_endpoint_is_asked_in_responses_and_others_in_chat() {
        let kind = kind("openai").unwrap();
        let at = |base_url: Option<&str>, format| {
            let base_url = base_url.map(str::to_owned);
            super::format(
                kind,
                &ProviderSettings { base_url, format, ..ProviderSettings::new("openai", "m") },
            )
        };
        assert_eq!(at(None, None), ApiFormat::Responses);
        assert_eq!(at(Some("https://api.openai.com/v1/"), None), ApiFormat::Responses);
        assert_eq!(at(Some("http://127.0.0.1:8080/v1"), None), ApiFormat::Chat);
        assert_eq!(at(Some("http://127.0.0.1:8080/v1"), Some(ApiFormat::Responses)), ApiFormat::Responses);
        assert_eq!(at(None, Some(ApiFormat::Chat)), ApiFormat::Chat);
    }

    /// A value of `effort` becomes the closest value that each vendor and model accepts.
    #[test]
    fn effort_is_sent_as_each_vendor_and_model_takes_it() {
        use serde_json::{Value, json};
        let chat = openai::OpenAi { vendor: openai::NAME };
        let rows: [(&dyn dialect::Dialect, &str, Effort, &str, Value); 12] = [
            (&chat, "gpt-5", Effort::High, "/reasoning_effort", json!("high")),
            (&responses::Responses, "gpt-5", Effort::XHigh, "/reasoning/effort", json!("xhigh")),
            (&openrouter::OpenRouter, "x/y", Effort::Low, "/reasoning", json!({ "effort": "low" })),
            (
                &anthropic::Anthropic,
                "claude-opus-4-7",
                Effort::Minimal,
                "/output_config/effort",
                json!("low"),
            ),
            (&anthropic::Anthropic, "claude-opus-4-7", Effort::None, "/thinking/type", json!("disabled")),
            (&anthropic::Anthropic, "claude-haiku-4-5", Effort::Low, "/thinking/budget_tokens", json!(2048)),
            (
                &gemini::Gemini,
                "gemini-2.5-flash",
                Effort::None,
                "/generationConfig/thinkingConfig/thinkingBudget",
                json!(0),
            ),
            (
                &gemini::Gemini,
                "gemini-3-pro",
                Effort::Minimal,
                "/generationConfig/thinkingConfig/thinkingLevel",
                json!("low"),
            ),
            (
                &gemini::Gemini,
                "gemini-flash-latest",
                Effort::Max,
                "/generationConfig/thinkingConfig/thinkingLevel",
                json!("high"),
            ),
            (&ollama::Ollama, "qwen3", Effort::None, "/think", json!(false)),
            (&ollama::Ollama, "qwen3", Effort::High, "/think", json!(true)),
            (&ollama::Ollama, "gpt-oss:20b", Effort::None, "/think", json!("low")),
        ];
        for (dialect, model, effort, place, expected) in rows {
            let messages = [Message::User("hi".into())];
            let ask = Ask { model, system: "", messages: &messages, tools: &[], output: None };
            let terms = dialect::Terms { effort: Some(effort), ..dialect::Terms::default() };
            let body = Value::from(dialect.request(&ask, &terms));
            assert_eq!(body.pointer(place), Some(&expected), "{model}: {body}");
            let unasked = Value::from(dialect.request(&ask, &dialect::Terms::default()));
            assert_eq!(unasked.pointer(place), None, "{model}");
        }
    }

    /// MR01: the error for an unknown provider lists the known ones.
    #[test]
    fn an_unknown_kind_lists_the_known_ones() {
        let error = build(ProviderSettings::new("openia", "m")).err().unwrap();
        assert_eq!(
            error.to_string(),
            "unknown provider `openia`; expected one of: `openai`, `anthropic`, `gemini`, `ollama`, `openrouter`"
        );
    }
}
