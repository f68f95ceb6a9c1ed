//! Selects the model and its provider: from program.toml, the command line, and the environment variables that the
//! vendors' own tools use. Sends nothing, and gives no vendor the key of another.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use secrecy::SecretString;

use super::Program;
use haft_agent::provider::{
    self, OLLAMA_HOST, Prices, Provider, ProviderKind, ProviderSettings, ollama_host,
};
use haft_core::report::{Problem, Report};
use haft_core::secret::Redactor;
use haft_manifest::{self as manifest, Manifest, Route, SecretError, Secrets};

/// The user's choice of the model, which overrides program.toml.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelChoice {
    /// The provider's kind.
    pub provider: Option<String>,
    /// The model's name; or `fast`, `complex` or `auto` for a model of the program.
    pub model: Option<String>,
    /// The URL of the provider.
    pub base_url: Option<String>,
}

impl ModelChoice {
    /// Returns the program's model that the choice names, if any.
    fn route(&self) -> Option<Route> {
        let model = self.model.as_deref()?;
        Route::ALL.iter().find(|(name, _)| *name == model).map(|(_, route)| *route)
    }

    pub(super) fn named_model(&self) -> Option<&str> {
        self.model.as_deref().filter(|_| self.route().is_none())
    }
}

/// A provider whose models are listed.
pub struct Listed {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// Whether program.toml names this provider.
    pub is_used: bool,
    /// Whether the provider's models are known; otherwise its model settings have no meaning.
    pub has_models: bool,
}

/// A placeholder where no model is needed.
const NO_MODEL: &str = "-";

impl Program {
    /// Returns the provider of program.toml with the overrides of `choice`.
    pub async fn provider(&self, choice: &ModelChoice) -> anyhow::Result<Arc<dyn Provider>> {
        self.models().provider(choice).await
    }

    /// Returns the route that `choice` or program.toml selects.
    pub fn route(&self, choice: &ModelChoice) -> Route {
        self.models().route(choice)
    }

    /// Returns the provider for listing its models, which needs no model.
    pub async fn listed(&self, choice: &ModelChoice) -> anyhow::Result<Listed> {
        let models = self.models();
        let (kind, mut settings) = models.settings(choice).await?;
        let own = models.own(kind);
        let has_models = self::models(choice, own, kind, &mut settings).is_ok();
        if !has_models {
            settings.model = NO_MODEL.into();
        }
        let is_used = own.is_some() && choice.base_url.is_none();
        Ok(Listed { provider: provider::build(settings)?, is_used, has_models })
    }

    /// Returns a text for the user about vendor-specific settings of `[provider]` that `choice` makes useless.
    pub fn unused_of_provider(&self, choice: &ModelChoice) -> Option<String> {
        let section = self.manifest.provider.as_ref()?;
        let (own, chosen) = (section.name.value.as_str(), choice.provider.as_deref()?);
        let keys = [
            ("extra_body", !section.extra_body.is_empty()),
            ("headers", !section.headers.is_empty()),
            ("format", section.format.is_some()),
        ];
        let keys: Vec<_> =
            keys.iter().filter(|(_, is_set)| *is_set).map(|(key, _)| format!("`{key}`")).collect();
        let is_useless = own != chosen && !keys.is_empty();
        is_useless.then(|| {
            format!("{} of `[provider]` belongs to `{own}` and is not sent to `{chosen}`", keys.join(", "))
        })
    }

    fn models(&self) -> Models<'_> {
        Models { manifest: &self.manifest, home: &self.dirs.home, redactor: &self.redactor }
    }
}

/// The models that a program.toml names.
pub(super) struct Models<'a> {
    pub(super) manifest: &'a Manifest,
    /// The expansion of `~`.
    pub(super) home: &'a Path,
    /// The redactor, which registers the keys.
    pub(super) redactor: &'a Redactor,
}

impl Models<'_> {
    pub(super) async fn provider(&self, choice: &ModelChoice) -> anyhow::Result<Arc<dyn Provider>> {
        let (kind, mut settings) = self.settings(choice).await?;
        models(choice, self.own(kind), kind, &mut settings)?;
        Ok(provider::build(settings)?)
    }

    /// Returns the settings of program.toml for providers of this kind.
    fn own(&self, kind: &ProviderKind) -> Option<&manifest::Provider> {
        let section = self.manifest.provider.as_ref();
        // Keys, addresses and models belong to one vendor, and are not used with another.
        section.filter(|section| section.name.value.as_str() == kind.name)
    }

    /// Returns all settings of a provider except its models.
    async fn settings(
        &self,
        choice: &ModelChoice,
    ) -> anyhow::Result<(&'static ProviderKind, ProviderSettings)> {
        let section = self.manifest.provider.as_ref();
        let kind = provider::kind(self.provider_kind(choice)?)?;
        let own = self.own(kind);
        let mut settings = ProviderSettings::new(kind.name, String::new());
        if let Some(section) = section {
            limits(section, &mut settings);
            // A price belongs to the name of a model.
            settings.prices = prices(section);
        }
        if let Some(own) = own {
            self.secrets_of(own, &mut settings).await?;
        }
        let base_url =
            choice.base_url.clone().or_else(|| own?.base_url.as_ref().map(|url| url.value.clone()));
        settings.base_url = base_url.or_else(|| usual_url(kind));
        if settings.api_key.is_none() {
            settings.api_key = usual_key(kind);
            self.redactor.add(&settings.api_key);
        }
        Ok((kind, settings))
    }

    pub(super) fn route(&self, choice: &ModelChoice) -> Route {
        match (choice.route(), choice.named_model()) {
            (Some(route), _) => route,
            // A named model is used for every request.
            (None, Some(_)) => Route::Complex,
            (None, None) => self.manifest.agent.route,
        }
    }

    fn provider_kind<'a>(&'a self, choice: &'a ModelChoice) -> Result<&'a str, Report> {
        let section = self.manifest.provider.as_ref().map(|section| section.name.value.as_str());
        let named = choice.provider.as_deref().or(section);
        // A private server most likely has the OpenAI API.
        named.or_else(|| choice.base_url.as_ref().map(|_| "openai")).ok_or_else(no_provider)
    }

    async fn secrets_of(
        &self,
        section: &manifest::Provider,
        settings: &mut ProviderSettings,
    ) -> Result<(), SecretError> {
        let secrets = Secrets::new(self.manifest, self.home, self.redactor);
        if let Some(source) = &section.api_key {
            settings.api_key = Some(secrets.read(source).await?);
        }
        for (name, value) in &section.headers {
            settings.headers.push((name.clone(), secrets.value(value).await?));
        }
        settings.extra.clone_from(&section.extra_body);
        settings.format = section.format;
        Ok(())
    }
}

/// Applies the settings that are independent of the vendor.
fn limits(section: &manifest::Provider, settings: &mut ProviderSettings) {
    settings.stream = section.stream;
    settings.effort = section.effort;
    settings.max_tokens = section.max_tokens;
    settings.context_window = section.context_window;
    settings.timeouts.connect = section.connect_timeout;
    settings.timeouts.first_byte = section.first_byte_timeout;
    settings.timeouts.idle = section.idle_timeout;
    settings.timeouts.total = section.timeout;
    if let Some(retries) = section.max_retries {
        settings.patience.retry.attempts = retries.saturating_add(1);
        settings.patience.in_task = None;
    }
}

fn prices(section: &manifest::Provider) -> BTreeMap<String, Prices> {
    let price = |price: &manifest::Price| Prices {
        input: price.input,
        output: price.output,
        cached: price.cached,
        stored: price.stored,
    };
    section.prices.iter().map(|(model, own)| (model.clone(), price(own))).collect()
}

/// Sets the models: the named model, those of program.toml, or the vendor's defaults.
fn models(
    choice: &ModelChoice,
    own: Option<&manifest::Provider>,
    kind: &ProviderKind,
    settings: &mut ProviderSettings,
) -> anyhow::Result<()> {
    let either = |first: Option<&String>, second: Option<&String>| first.or(second).cloned();
    let plain = own.and_then(|own| own.model.as_ref());
    let complex = own.and_then(|own| either(own.model_complex.as_ref(), plain));
    // A model that the user replaces is not used.
    let plain_fast = plain.filter(|_| choice.named_model().is_none());
    let fast = own.and_then(|own| either(own.model_fast.as_ref(), plain_fast));
    // A private server does not have the vendor's models.
    let usual = |model: &str| {
        let is_vendor = settings.base_url.is_none() && !model.is_empty();
        is_vendor.then(|| model.to_owned())
    };
    let (usual, usual_fast) = (usual(kind.model), usual(kind.model_fast));
    let configured = complex.is_some() || fast.is_some();
    let fast = fast.or_else(|| usual_fast.filter(|_| !configured && choice.named_model().is_none()));
    let named = choice.named_model().map(str::to_owned);
    let Some(model) = named.or(complex).or_else(|| fast.clone().filter(|_| configured)).or(usual) else {
        anyhow::bail!(
            "no model is configured: use `--model`, or write `[provider]` with `model = \"…\"` to \
             program.toml"
        );
    };
    settings.model = model;
    settings.model_fast = fast;
    Ok(())
}

/// Returns the key from the variable that the vendor's own tools use.
fn usual_key(kind: &ProviderKind) -> Option<SecretString> {
    std::env::var(kind.key_variable).ok().filter(|key| !key.is_empty()).map(SecretString::from)
}

/// Returns the server URL from the variable that the vendor's own tools use.
fn usual_url(kind: &ProviderKind) -> Option<String> {
    let base_url =
        std::env::var(OLLAMA_HOST).ok().filter(|base_url| kind.name == "ollama" && !base_url.is_empty())?;
    let (scheme, host, port) = ollama_host(&base_url);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Some(format!("{scheme}://{host}:{port}"))
}

/// Returns the error that no provider is set.
fn no_provider() -> Report {
    let with_key: Vec<_> = provider::PROVIDERS.iter().filter(|kind| usual_key(kind).is_some()).collect();
    let problem = Problem::new("no model provider is configured")
        .hint("use `--provider`, or write `[provider]` with `name = \"…\"` to program.toml");
    let hints = with_key.iter().map(|kind| {
        format!("`{}` is set: `--provider {}` uses `{}`", kind.key_variable, kind.name, kind.model)
    });
    hints.fold(problem, Problem::hint).into()
}

#[cfg(test)]
mod tests;
