//! Who answers an [`Ask`] with a [`Turn`]. A vendor's format is two pure functions in a file of
//! its own (a `Dialect`); `remote` does the I/O once for all of them and is the only home of
//! the HTTP client. Nothing here runs a tool or decides what to ask next.

mod ask;
mod error;
mod openai;
mod prices;
mod remote;
mod retry;
mod settings;
mod turn;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

pub use self::ask::{Ask, Exchange, Message};
pub use self::error::{Failure, ProviderError, SettingsError};
pub use self::prices::{Cost, Prices};
use self::remote::Remote;
pub(crate) use self::remote::tls;
pub use self::retry::Retry;
pub(crate) use self::retry::retry_after;
pub use self::settings::{ProviderSettings, Timeouts};
pub use self::turn::{Reply, Stop, Turn, Usage, Wanted};
use crate::event::Events;

/// Whoever gives the next turn of a conversation.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The kind's name, as in [`PROVIDERS`].
    fn name(&self) -> &str;

    /// The model that is asked when nobody names another.
    fn model(&self) -> &str;

    /// Asks for the next turn. What the model says is emitted as [`Said`](crate::event::Event::Said)
    /// as it arrives. Dropping the future gives the request up.
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

/// A vendor's format: what to send and what an answer means. Pure; `remote` does the rest.
trait Dialect: Send + Sync {
    /// Where the turns are, below the base URL.
    fn path(&self) -> &'static str;

    /// What lists the models, below the base URL: free of charge, so fit for a check.
    fn models_path(&self) -> &'static str;

    /// The header that carries the API key.
    fn key_header(&self, key: &str) -> (&'static str, String);

    /// Keys of the body that are not for settings to write.
    fn reserved(&self) -> &'static [&'static str];

    /// The body that asks for `ask`'s next turn.
    fn request(&self, ask: &Ask<'_>) -> Map<String, Value>;

    /// What the body of a successful answer to `ask` says.
    fn decode(&self, ask: &Ask<'_>, body: &[u8]) -> Result<Turn, Failure>;
}

/// A row of [`PROVIDERS`].
#[derive(Clone, Copy)]
pub struct ProviderKind {
    /// What `[provider] name` says.
    pub name: &'static str,
    /// Where requests go unless `base_url` says otherwise.
    pub base_url: &'static str,
    /// Where an API key is usually kept; only ever named in hints.
    pub key_variable: &'static str,
    build: Build,
}

type Build = fn(&'static ProviderKind, ProviderSettings) -> Result<Arc<dyn Provider>, SettingsError>;

/// Every kind of provider, in the order in which help and messages list them.
pub const PROVIDERS: &[ProviderKind] = &[ProviderKind {
    name: "openai",
    base_url: "https://api.openai.com/v1",
    key_variable: "OPENAI_API_KEY",
    build: |kind, settings| Ok(Arc::new(Remote::new(kind, openai::OpenAi, settings)?)),
}];

/// Makes the provider that `settings` describe. Sends nothing.
pub fn build(settings: ProviderSettings) -> Result<Arc<dyn Provider>, SettingsError> {
    let kind = PROVIDERS
        .iter()
        .find(|kind| kind.name == settings.kind)
        .ok_or_else(|| SettingsError::UnknownKind { kind: settings.kind.clone() })?;
    (kind.build)(kind, settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_unique_names_and_usable_defaults() {
        for (index, kind) in PROVIDERS.iter().enumerate() {
            assert!(PROVIDERS[..index].iter().all(|other| other.name != kind.name));
            let settings = ProviderSettings::new(kind.name, "some-model");
            assert_eq!(build(settings).unwrap().name(), kind.name);
        }
    }

    #[test]
    fn an_unknown_kind_lists_the_known_ones() {
        let error = build(ProviderSettings::new("openia", "m")).err().unwrap();
        assert_eq!(error.to_string(), "unknown provider `openia`; expected one of: `openai`");
    }
}
