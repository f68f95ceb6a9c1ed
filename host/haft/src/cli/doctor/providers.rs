//! The report of `haft doctor` on the model providers and their keys. States where a key is stored, never its
//! value.

use std::time::Duration;

use serde::Serialize;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Line, Mark};
use haft::program::Program;
use haft_agent::provider::{OLLAMA_HOST, PROVIDERS, ollama_host};
use haft_manifest::{Provider, SecretSource};

/// Time limit for a connection to a server on this machine.
const BOUND: Duration = Duration::from_secs(1);

/// Every provider that haft knows, and the provider of the program.
#[derive(Serialize)]
pub(super) struct Providers {
    known: Vec<Known>,
    ollama: Local,
    program: Option<Named>,
    agents: Vec<OfAgent>,
}

#[derive(Serialize)]
struct OfAgent {
    name: String,
    provider: Option<String>,
    model: Option<String>,
    /// The reason why the agent has no usable provider.
    error: Option<String>,
}

#[derive(Serialize)]
struct Known {
    name: &'static str,
    base_url: &'static str,
    key_variable: &'static str,
    has_key: bool,
}

#[derive(Serialize)]
struct Local {
    address: String,
    is_reachable: bool,
}

/// `[provider]` of program.toml.
#[derive(Serialize)]
struct Named {
    name: &'static str,
    model: Option<String>,
    base_url: Option<String>,
    key: Key,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Key {
    In(String),
    /// The key would have to be requested, and its store may be locked.
    NotAskedFor(String),
    /// The provider needs no key.
    NotNeeded,
    /// The key does not exist, and the reason.
    Missing(String),
}

impl Providers {
    pub(super) async fn gather(program: Option<&Program>) -> Self {
        // Providers without a key are servers on this machine, which are checked by a connection.
        let known = PROVIDERS.iter().filter(|kind| kind.needs_key).map(|kind| Known {
            name: kind.name,
            base_url: kind.base_url,
            key_variable: kind.key_variable,
            has_key: is_set(kind.key_variable),
        });
        let named = program.and_then(|program| Some((program, program.manifest.provider.as_ref()?)));
        let named = match named {
            Some((program, provider)) => Some(Named::gather(provider, program).await),
            None => None,
        };
        Self {
            known: known.collect(),
            ollama: Local::probe(std::env::var(OLLAMA_HOST).ok().as_deref()).await,
            program: named,
            agents: match program {
                Some(program) => program.agent_models().await.into_iter().map(OfAgent::new).collect(),
                None => Vec::new(),
            },
        }
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let program = self.program.iter().map(Named::line);
        let program = program.chain(self.agents.iter().map(OfAgent::line));
        program.chain(self.known.iter().map(Known::line)).chain([self.ollama.line()]).collect()
    }
}

impl OfAgent {
    fn new((name, model): (String, Result<(String, String), String>)) -> Self {
        match model {
            Ok((provider, model)) => Self { name, provider: Some(provider), model: Some(model), error: None },
            Err(error) => Self { name, provider: None, model: None, error: Some(error) },
        }
    }

    fn line(&self) -> Line {
        let name = format!("agent {}", self.name);
        match (&self.provider, &self.model, &self.error) {
            (Some(provider), Some(model), None) => {
                Line::new(Mark::Good, name, format!("`{provider}`, {model}"))
            }
            (_, _, error) => {
                let why = error.as_deref().and_then(|why| why.lines().next()).unwrap_or("no model");
                Line::new(Mark::Warning, name, format!("cannot ask its model: {why}"))
            }
        }
    }
}

/// Returns whether a variable has a value. The value itself is dropped.
pub(in crate::cli) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

impl Known {
    fn line(&self) -> Line {
        let Self { name, base_url, key_variable, has_key } = self;
        if *has_key {
            Line::new(Mark::Good, *name, format!("{base_url}, key in `{key_variable}`"))
        } else {
            Line::new(Mark::Absent, *name, format!("{base_url}, no key: `{key_variable}` is not set"))
        }
    }
}

impl Local {
    async fn probe(address: Option<&str>) -> Self {
        let (_, host, port) = ollama_host(address.unwrap_or_default());
        let connected = timeout(BOUND, TcpStream::connect((host.as_str(), port))).await;
        Self { address: format!("{host}:{port}"), is_reachable: matches!(connected, Ok(Ok(_))) }
    }

    fn line(&self) -> Line {
        let address = &self.address;
        if self.is_reachable {
            return Line::new(Mark::Good, "ollama", format!("something listens on {address}")).more([
                "use it with `haft run --provider ollama --model NAME …`; `ollama list` lists its models"
                    .to_owned(),
            ]);
        }
        Line::new(Mark::Absent, "ollama", format!("nothing listens on {address}"))
    }
}

/// Returns whether Ollama, or a compatible server, accepts connections at its usual address.
pub(in crate::cli) async fn is_ollama_there() -> bool {
    Local::probe(std::env::var(OLLAMA_HOST).ok().as_deref()).await.is_reachable
}

impl Named {
    async fn gather(provider: &Provider, program: &Program) -> Self {
        Self {
            name: provider.name.value.as_str(),
            model: provider.model_complex.clone().or_else(|| provider.model.clone()),
            base_url: provider.base_url.as_ref().map(|url| url.value.clone()),
            key: Key::gather(provider, program).await,
        }
    }

    fn line(&self) -> Line {
        let model = self.model.as_deref().unwrap_or("no model set");
        let url = self.base_url.as_ref().map(|url| format!(", {url}")).unwrap_or_default();
        let (mark, key) = match &self.key {
            Key::In(place) => (Mark::Good, format!("key in {place}")),
            Key::NotAskedFor(place) => (Mark::Good, format!("key in {place} (not read)")),
            Key::NotNeeded => (Mark::Good, "needs no key".to_owned()),
            // A self-hosted server may need no key.
            Key::Missing(why) if self.base_url.is_some() => (Mark::Good, format!("no key: {why}")),
            Key::Missing(why) => (Mark::Warning, format!("no key: {why}")),
        };
        Line::new(mark, "in use", format!("`{}`, {model}{url}, {key}", self.name))
    }
}

impl Key {
    async fn gather(provider: &Provider, program: &Program) -> Self {
        let Some(source) = &provider.api_key else { return Self::usual(provider.name.value.as_str()) };
        let place = match source {
            SecretSource::Keyring(entry) => return Self::NotAskedFor(format!("the keyring as `{entry}`")),
            SecretSource::Env(variable) => format!("`{variable}`"),
            SecretSource::File(path) => format!("`{}`", path.display()),
        };
        match program.secrets().read(source).await {
            Ok(_) => Self::In(place),
            Err(error) => Self::Missing(error.to_string()),
        }
    }

    /// Returns the state of the key at the place that the vendor's own tools use.
    fn usual(provider: &str) -> Self {
        match PROVIDERS.iter().find(|kind| kind.name == provider) {
            Some(kind) if is_set(kind.key_variable) => Self::In(format!("`{}`", kind.key_variable)),
            Some(kind) if !kind.needs_key => Self::NotNeeded,
            Some(kind) => Self::Missing(format!("`{}` is not set", kind.key_variable)),
            None => Self::Missing("this version does not support this provider".to_owned()),
        }
    }
}
