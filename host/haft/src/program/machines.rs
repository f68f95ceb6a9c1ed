//! Selects the machine on which a tool runs: this one, or workers connected by NATS. Decides by `on` and by the
//! role of this process: a gate, which sends calls, or a worker, which runs them. Grants nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::json;

use haft_core::report::Problem;
use haft_core::secret::Redactor;
use haft_core::sync::Lock;
use haft_core::tool::Tool;
use haft_core::trace::Trace;
use haft_manifest::{Label, Manifest, NatsLogin, NatsUrl, SecretError, SecretSource, Secrets, Transport};
use haft_nats::{Gate, Identity, LinkError, Login, NatsTool, Server, Settings, Tls};

/// The role of this process, and its NATS server. Clones share one gate.
#[derive(Clone, Debug, Default)]
pub struct Machines {
    /// The URL of the NATS server; overrides `[nats] urls`.
    url: Option<NatsUrl>,
    /// The labels of this process if it is a worker, which has the tools that run on workers with any of them. Any other
    /// process has the local tools, and sends calls of other tools to workers.
    worker: Option<Vec<Label>>,
    /// The gate of the last reading of the program.
    gate: Arc<Lock<Option<Arc<Gate>>>>,
}

/// The placement of one program's tools, for this process.
#[derive(Clone, Debug, Default)]
pub enum Placement {
    /// No NATS server is set: tools on workers are unavailable.
    #[default]
    Alone,
    /// Workers are reached through this gate.
    Gate(Arc<Gate>),
    /// This process is a worker with these labels.
    Worker(Vec<Label>),
}

/// The place of one tool.
pub(super) enum Placed {
    /// This process.
    Here(Arc<dyn Tool>),
    /// Workers. The tool sends calls to them.
    There(Arc<dyn Tool>),
    /// Neither reachable nor needed in this process, with the reason for the user.
    Elsewhere(Option<String>),
}

impl Machines {
    /// Creates a gate to workers at `url`, or at `[nats] urls`.
    pub fn at(url: Option<NatsUrl>) -> Self {
        Self { url, ..Self::default() }
    }

    /// Sets the role of a worker with these labels.
    #[must_use]
    pub fn worker(self, labels: Vec<Label>) -> Self {
        Self { worker: Some(labels), ..self }
    }

    /// Returns the placement of the program's tools, and a problem if tools run on workers and no NATS server is
    /// set.
    pub(super) fn placement(
        &self,
        (manifest, lock): (&Manifest, &haft_package::Lock),
        (home, redactor): (&Path, &Redactor),
        trace: &Trace,
    ) -> (Placement, Option<Problem>) {
        if let Some(labels) = &self.worker {
            return (Placement::Worker(labels.clone()), None);
        }
        if !manifest.has_workers() {
            return (Placement::Alone, None);
        }
        if !self.are_met(manifest) {
            let text = "tools of this program run on workers, but no NATS server is set";
            let hint = "`--nats nats://HOST:4222` for this run, or `urls` in `[nats]`";
            return (Placement::Alone, Some(Problem::new(text).warning().hint(hint)));
        }
        let identity = identity(manifest, lock);
        let mut current = self.gate.lock();
        let same = current.as_ref().filter(|gate| *gate.identity() == identity);
        let new = || {
            let server = self.server(manifest, home, redactor);
            Arc::new(Gate::new(Arc::new(server), identity.clone(), trace))
        };
        let gate = same.cloned().unwrap_or_else(new);
        *current = Some(gate.clone());
        (Placement::Gate(gate), None)
    }

    /// Returns whether a NATS server is set for the program `manifest`.
    pub(super) fn are_met(&self, manifest: &Manifest) -> bool {
        self.url.is_some() || !manifest.nats.urls.is_empty()
    }

    /// Returns the NATS server of the program `manifest`. `home` is the expansion of `~`.
    pub(super) fn server(&self, manifest: &Manifest, home: &Path, redactor: &Redactor) -> NatsServer {
        let (url, manifest, redactor) = (self.url.clone(), manifest.clone(), redactor.clone());
        NatsServer { url, manifest, home: home.to_owned(), redactor }
    }

    /// Returns the machines for a separate program, which is a gate.
    #[must_use]
    pub fn of_another(&self) -> Self {
        Self { url: self.url.clone(), ..Self::default() }
    }
}

impl Placement {
    /// Returns whether this process needs entries on workers labelled `on`: as tools, or for their definitions.
    pub(super) fn loads(&self, on: &[Label]) -> bool {
        match self {
            Self::Alone => on.is_empty(),
            Self::Gate(_) => true,
            Self::Worker(labels) => Label::are_met(on, labels),
        }
    }

    /// Returns whether entries on workers labelled `on` run in this process.
    pub(super) fn runs(&self, on: &[Label]) -> bool {
        match self {
            Self::Alone | Self::Gate(_) => on.is_empty(),
            Self::Worker(labels) => Label::are_met(on, labels),
        }
    }

    /// Returns the place of `tool`, which runs on workers labelled `on` or, without labels, in this process.
    pub(super) fn of(&self, on: &[Label], tool: Arc<dyn Tool>) -> Placed {
        match self {
            _ if self.runs(on) => Placed::Here(tool),
            Self::Gate(gate) => Placed::There(Arc::new(NatsTool::new(gate, tool, on))),
            Self::Alone => Placed::Elsewhere(Some(elsewhere(on))),
            Self::Worker(_) => Placed::Elsewhere(None),
        }
    }

    /// Returns whether this process is a worker.
    pub fn is_worker(&self) -> bool {
        matches!(self, Self::Worker(_))
    }

    /// Returns the gate to workers, if there is one.
    pub fn gate(&self) -> Option<&Arc<Gate>> {
        match self {
            Self::Gate(gate) => Some(gate),
            Self::Alone | Self::Worker(_) => None,
        }
    }

    /// Returns when the tools of the workers have changed.
    pub(super) async fn changed(&self) {
        if let Some(gate) = self.gate() {
            let mut changes = gate.changes();
            if changes.changed().await.is_ok() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }
}

/// Returns the reason why a tool on workers is unavailable.
pub(super) fn elsewhere(on: &[Label]) -> String {
    format!(
        "it runs on workers labelled {}, but no NATS server is set: use `--nats URL`, or `urls` in `[nats]`",
        Label::listed(on)
    )
}

/// Returns the identity that gates and workers of a program must share: its lock, and its entries on workers except
/// their rights. Gates compare the definitions of tools and the bytes of components tool by tool.
pub(super) fn identity(manifest: &Manifest, lock: &haft_package::Lock) -> Identity {
    let Manifest { tools, mcp_servers, .. } = manifest;
    let tools = tools.iter().filter(|tool| !tool.on.is_empty()).map(|tool| {
        let flags: Vec<_> = tool.arguments.iter().map(|one| json!([one.name.as_str(), one.flag])).collect();
        json!([tool.name.as_str(), tool.command.value, flags, tool.extra_args])
    });
    let servers = mcp_servers.iter().filter(|server| !server.on.is_empty()).map(|server| {
        let transport = match &server.transport {
            Transport::Stdio { command, .. } => json!(command.value),
            Transport::Http { url, .. } => json!(url.value),
        };
        json!([server.name.as_str(), transport])
    });
    let declared = json!([tools.collect::<Vec<_>>(), servers.collect::<Vec<_>>()]).to_string();
    Identity::new(manifest.name(), &[lock.text().as_bytes(), declared.as_bytes()])
}

/// The NATS server of program.toml and the command line. Its secrets are read at each connection.
#[derive(Debug)]
pub struct NatsServer {
    url: Option<NatsUrl>,
    manifest: Manifest,
    home: PathBuf,
    redactor: Redactor,
}

#[async_trait]
impl Server for NatsServer {
    async fn settings(&self) -> Result<Settings, LinkError> {
        let table = &self.manifest.nats;
        let urls: Vec<String> = match &self.url {
            Some(url) => vec![url.as_str().to_owned()],
            None => table.urls.iter().map(|url| url.as_str().to_owned()).collect(),
        };
        if urls.is_empty() {
            let why = "no NATS server is set: use `--nats URL`, or `urls` in `[nats]`";
            return Err(LinkError::Unusable(why.into()));
        }
        let path = |path: &PathBuf| self.manifest.resolve(path, &self.home);
        let prefix = table.prefix.as_ref().map_or(haft_nats::DEFAULT_PREFIX, |prefix| prefix.as_str());
        let tls = Tls {
            ca: table.ca.as_ref().map(|ca| path(&ca.value)),
            certificate: table.certificate.as_ref().map(|(certificate, key)| (path(certificate), path(key))),
        };
        let (login, storage) = (self.login(table.login.as_ref()).await?, table.storage);
        Ok(Settings { urls, login, tls, prefix: prefix.to_owned(), storage })
    }
}

impl NatsServer {
    async fn login(&self, login: Option<&NatsLogin>) -> Result<Login, LinkError> {
        Ok(match login {
            None => Login::Nobody,
            Some(NatsLogin::User(user, password)) => {
                let user = self.secrets().value(user).await.map_err(|error| unavailable(&error))?;
                Login::User(user, self.secret(password).await?)
            }
            Some(NatsLogin::Token(kept)) => Login::Token(self.secret(kept).await?),
            Some(NatsLogin::Credentials(kept)) => Login::Credentials(self.secret(kept).await?),
            Some(NatsLogin::Nkey(kept)) => Login::Nkey(self.secret(kept).await?),
        })
    }

    async fn secret(&self, source: &SecretSource) -> Result<SecretString, LinkError> {
        self.secrets().read(source).await.map_err(|error| unavailable(&error))
    }

    fn secrets(&self) -> Secrets<'_> {
        Secrets::new(&self.manifest, &self.home, &self.redactor)
    }
}

fn unavailable(error: &SecretError) -> LinkError {
    LinkError::Unusable(error.with_hint())
}
