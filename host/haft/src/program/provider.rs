//! Which model is asked, and where: program.toml, what a person says in its place, and the environment
//! that the vendors' own tools look at. Sends nothing, and gives no vendor the key of another.

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
use haft_manifest::{self as manifest, Manifest, Route, TextOrSecret};
use haft_manifest::{SecretError, Secrets};

/// What a person says about the model, in place of what program.toml says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelChoice {
    /// The provider's kind.
    pub provider: Option<String>,
    /// The model's name; or `fast`, `complex` or `auto`, which are the program's.
    pub model: Option<String>,
    /// Where the provider is.
    pub base_url: Option<String>,
}

impl ModelChoice {
    /// Which of the program's models it is to be, where it says that.
    fn route(&self) -> Option<Route> {
        let model = self.model.as_deref()?;
        Route::ALL.iter().find(|(name, _)| *name == model).map(|(_, route)| *route)
    }

    pub(super) fn named_model(&self) -> Option<&str> {
        self.model.as_deref().filter(|_| self.route().is_none())
    }
}

/// A provider to be asked what it offers.
pub struct Listed {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// Whether it is the one that program.toml names.
    pub is_used: bool,
    /// Whether it is known which models it would be asked for; otherwise its models have no meaning.
    pub has_models: bool,
}

/// Stands for a model where none is asked.
const NO_MODEL: &str = "-";

impl Program {
    /// The provider of program.toml with what `choice` says in its place.
    pub async fn provider(&self, choice: &ModelChoice) -> anyhow::Result<Arc<dyn Provider>> {
        self.models().provider(choice).await
    }

    /// Which of its models does the work.
    pub fn route(&self, choice: &ModelChoice) -> Route {
        self.models().route(choice)
    }

    /// The provider to be asked what it offers, which needs no model.
    pub async fn listed(&self, choice: &ModelChoice) -> anyhow::Result<Listed> {
        self.models().listed(choice).await
    }

    /// What `[provider]` says of its vendor alone and `choice` makes useless, for a person to know.
    pub fn unused_of_provider(&self, choice: &ModelChoice) -> Option<String> {
        self.models().unused_of_provider(choice)
    }

    fn models(&self) -> Models<'_> {
        Models { manifest: &self.manifest, home: &self.dirs.home, redactor: &self.redactor }
    }
}

/// The models that a program.toml names.
pub(super) struct Models<'a> {
    pub(super) manifest: &'a Manifest,
    /// What `~` means there.
    pub(super) home: &'a Path,
    /// It learns their keys.
    pub(super) redactor: &'a Redactor,
}

impl Models<'_> {
    /// The provider of program.toml with what `choice` says in its place.
    pub(super) async fn provider(&self, choice: &ModelChoice) -> anyhow::Result<Arc<dyn Provider>> {
        let (kind, mut settings) = self.settings(choice).await?;
        models(choice, self.own(kind), kind, &mut settings)?;
        Ok(provider::build(settings)?)
    }

    /// The same to ask what it offers, which needs no model.
    async fn listed(&self, choice: &ModelChoice) -> anyhow::Result<Listed> {
        let (kind, mut settings) = self.settings(choice).await?;
        let has_models = models(choice, self.own(kind), kind, &mut settings).is_ok();
        if !has_models {
            settings.model = NO_MODEL.into();
        }
        let is_used = self.own(kind).is_some() && choice.base_url.is_none();
        Ok(Listed { provider: provider::build(settings)?, is_used, has_models })
    }

    /// What program.toml says of providers of this kind.
    fn own(&self, kind: &ProviderKind) -> Option<&manifest::Provider> {
        let section = self.manifest.provider.as_ref();
        // Keys, addresses and models belong to one vendor, and are not used with another.
        section.filter(|section| section.name.value.as_str() == kind.name)
    }

    /// Everything about a provider but its models.
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
            // A price goes with the name of a model.
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

    /// What `[provider]` says of its vendor alone and `choice` makes useless, for a person to know.
    pub(super) fn unused_of_provider(&self, choice: &ModelChoice) -> Option<String> {
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

    /// Which of its models does the work.
    pub(super) fn route(&self, choice: &ModelChoice) -> Route {
        match (choice.route(), choice.named_model()) {
            (Some(route), _) => route,
            // Who names a model wants that one.
            (None, Some(_)) => Route::Complex,
            (None, None) => self.manifest.agent.route,
        }
    }

    fn provider_kind<'a>(&'a self, choice: &'a ModelChoice) -> Result<&'a str, Report> {
        let section = self.manifest.provider.as_ref().map(|section| section.name.value.as_str());
        let named = choice.provider.as_deref().or(section);
        // A server of one's own most likely speaks what most of them do.
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
            let value = match value {
                TextOrSecret::Text(text) => SecretString::from(text.clone()),
                TextOrSecret::Secret(source) => secrets.read(source).await?,
            };
            settings.headers.push((name.clone(), value));
        }
        settings.extra.clone_from(&section.extra_body);
        settings.format = section.format;
        Ok(())
    }
}

/// What holds for any vendor.
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

/// The models: the one that was named, those of program.toml, or the vendor's own.
fn models(
    choice: &ModelChoice,
    own: Option<&manifest::Provider>,
    kind: &ProviderKind,
    settings: &mut ProviderSettings,
) -> anyhow::Result<()> {
    let either = |first: Option<&String>, second: Option<&String>| first.or(second).cloned();
    let plain = own.and_then(|own| own.model.as_ref());
    let complex = own.and_then(|own| either(own.model_complex.as_ref(), plain));
    // Nobody meant the model that another takes the place of to have a part in it.
    let plain_fast = plain.filter(|_| choice.named_model().is_none());
    let fast = own.and_then(|own| either(own.model_fast.as_ref(), plain_fast));
    // A server of one's own has models of its own.
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

/// The key where the vendor's own tools look for it.
fn usual_key(kind: &ProviderKind) -> Option<SecretString> {
    std::env::var(kind.key_variable).ok().filter(|key| !key.is_empty()).map(SecretString::from)
}

/// Where the vendor's own tools look for a server of one's own.
fn usual_url(kind: &ProviderKind) -> Option<String> {
    let base_url =
        std::env::var(OLLAMA_HOST).ok().filter(|base_url| kind.name == "ollama" && !base_url.is_empty())?;
    let (scheme, host, port) = ollama_host(&base_url);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Some(format!("{scheme}://{host}:{port}"))
}

/// No provider is set.
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
