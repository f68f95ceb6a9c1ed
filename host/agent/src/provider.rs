//! Answers an [`Ask`] with a [`Turn`]. A vendor's format is two pure functions in a file of its own (a `Dialect`);
//! `remote` does the I/O once for all of them and is the only home of the HTTP client. Nothing here runs a tool or
//! decides what to ask next.

mod anthropic;
mod ask;
mod body;
mod calls;
mod cost;
mod dialect;
mod error;
mod frames;
mod gemini;
mod merge;
mod ollama;
mod openai;
mod openrouter;
mod prices;
mod reading;
mod remote;
mod schema;
mod settings;
mod turn;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::ask::{Ask, Exchange, Message};
pub use self::cost::Cost;
pub use self::error::{Failure, ProviderError, SettingsError};
pub use self::ollama::{HOST_VARIABLE as OLLAMA_HOST, host as ollama_host};
pub use self::prices::Prices;
use self::remote::Remote;
pub use self::settings::{ProviderSettings, Timeouts};
pub use self::turn::{Reply, RequestedCall, Stop, Turn, Usage};
use haft_core::event::Events;
pub use haft_core::net::Retry;

/// A source of the next turn of a conversation.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The kind's name, as in [`PROVIDERS`].
    fn name(&self) -> &str;

    /// The default model.
    fn model(&self) -> &str;

    /// The model for small decisions: the same where there is only one.
    fn model_fast(&self) -> &str {
        self.model()
    }

    /// Asks for the next turn. What the model says is emitted as [`Said`](haft_core::event::Event::Said)
    /// as it arrives, what it thinks as [`Thought`](haft_core::event::Event::Thought). Dropping the future
    /// gives the request up.
    async fn turn(&self, ask: &Ask<'_>, events: &Events) -> Result<Turn, ProviderError>;

    /// Finds out whether a turn can be asked for, without paying for one.
    async fn check(&self) -> Result<(), ProviderError>;

    /// Whether a turn can be asked for; the reason why not goes to the log as a warning.
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
    /// What `[provider] name` says.
    pub name: &'static str,
    /// Where requests go unless `base_url` says otherwise.
    pub base_url: &'static str,
    /// Where an API key is usually kept.
    pub key_variable: &'static str,
    /// Whether requests to [`base_url`](Self::base_url) need a key.
    pub needs_key: bool,
    /// The default model; empty where there is none.
    pub model: &'static str,
    /// The same for small decisions.
    pub model_fast: &'static str,
    build: Build,
}

type Build = fn(&'static ProviderKind, ProviderSettings) -> Result<Arc<dyn Provider>, SettingsError>;

/// Every kind of provider, in the order in which help and messages list them. Models are named by what
/// the vendor moves on to newer ones, where there is such a name.
pub const PROVIDERS: &[ProviderKind] = &[
    ProviderKind {
        name: openai::NAME,
        base_url: "https://api.openai.com/v1",
        key_variable: "OPENAI_API_KEY",
        needs_key: true,
        model: "gpt-5",
        model_fast: "gpt-5-mini",
        build: |kind, settings| {
            Ok(Arc::new(Remote::new(kind, openai::OpenAi { vendor: openai::NAME }, settings)?))
        },
    },
    ProviderKind {
        name: anthropic::NAME,
        base_url: "https://api.anthropic.com/v1",
        key_variable: "ANTHROPIC_API_KEY",
        needs_key: true,
        model: "claude-sonnet-4-5",
        model_fast: "claude-haiku-4-5",
        build: |kind, settings| Ok(Arc::new(Remote::new(kind, anthropic::Anthropic, settings)?)),
    },
    ProviderKind {
        name: gemini::NAME,
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        key_variable: "GEMINI_API_KEY",
        needs_key: true,
        model: "gemini-pro-latest",
        model_fast: "gemini-flash-latest",
        build: |kind, settings| Ok(Arc::new(Remote::new(kind, gemini::Gemini, settings)?)),
    },
    ProviderKind {
        name: ollama::NAME,
        base_url: "http://127.0.0.1:11434",
        key_variable: "OLLAMA_API_KEY",
        needs_key: false,
        model: "",
        model_fast: "",
        build: |kind, settings| Ok(Arc::new(Remote::new(kind, ollama::Ollama, settings)?)),
    },
    ProviderKind {
        name: openrouter::NAME,
        base_url: "https://openrouter.ai/api/v1",
        key_variable: "OPENROUTER_API_KEY",
        needs_key: true,
        model: "openrouter/auto",
        model_fast: "openrouter/auto",
        build: |kind, settings| Ok(Arc::new(Remote::new(kind, openrouter::OpenRouter, settings)?)),
    },
];

/// The kind of provider that is called `name`.
pub fn kind(name: &str) -> Result<&'static ProviderKind, SettingsError> {
    let unknown = || SettingsError::UnknownKind { kind: name.to_owned(), known: names() };
    PROVIDERS.iter().find(|kind| kind.name == name).ok_or_else(unknown)
}

/// The names of all kinds, for a message.
fn names() -> String {
    PROVIDERS.iter().map(|kind| format!("`{}`", kind.name)).collect::<Vec<_>>().join(", ")
}

/// Makes the provider that `settings` describe. Sends nothing.
pub fn build(settings: ProviderSettings) -> Result<Arc<dyn Provider>, SettingsError> {
    let kind = kind(&settings.kind)?;
    (kind.build)(kind, settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MR01: the table builds each of the five.
    #[test]
    fn mr01_kinds_have_unique_names_and_usable_defaults() {
        for (index, kind) in PROVIDERS.iter().enumerate() {
            assert!(PROVIDERS[..index].iter().all(|other| other.name != kind.name));
            let settings = ProviderSettings::new(kind.name, "some-model");
            assert_eq!(build(settings).unwrap().name(), kind.name);
            assert_eq!(kind.model.is_empty(), kind.model_fast.is_empty());
        }
        assert_eq!(PROVIDERS.len(), 5);
    }

    /// MR01.
    #[test]
    fn mr01_an_unknown_kind_lists_the_known_ones() {
        let error = build(ProviderSettings::new("openia", "m")).err().unwrap();
        assert_eq!(
            error.to_string(),
            "unknown provider `openia`; expected one of: `openai`, `anthropic`, `gemini`, `ollama`, `openrouter`"
        );
    }
}
