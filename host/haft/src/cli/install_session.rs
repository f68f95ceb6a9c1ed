//! Code shared by the verbs for packages: opens the program that a verb changes, asks at the terminal for consent, and
//! describes the results of `haft_package`. Only an explicit yes is consent. Installs nothing.

use std::path::PathBuf;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::common::Common;
use super::consent_page::{Before, Page, is_grantable};
use super::install_args::Rights;
use super::terminal::{Hinted, Terminal};
use haft::program::{Agreement, Dirs, FILE_NAME, InstallContext, skill_servers};
use haft_core::grant::Right;
use haft_manifest::{Manifest, McpServer};
use haft_package::registry::Registry;
use haft_package::search::Sources;
use haft_package::signature::{Signer, Trust};
use haft_package::{
    Change, Consent, Decision, Held, InstallError, Installed, Installer, Kind, Lock, Offered, Operation,
    Project, ProjectEntry, ProjectError, Proposal, Request, Store, with_new,
};

/// The variable with a registry of MCP servers. It precedes the registries of `sources.toml`.
const REGISTRY: &str = "HAFT_MCP_REGISTRY";

/// Returns the marketplaces and registries that the user configured, the registry of the variable first.
pub(super) fn sources(dirs: &Dirs) -> anyhow::Result<Sources> {
    let mut sources = Sources::in_folder(&dirs.config, &dirs.home)?;
    let named = std::env::var(REGISTRY).ok().filter(|url| !url.is_empty());
    if let Some(own) = named.map(|url| Registry { url }) {
        sources.registries.retain(|other| other.shown() != own.shown());
        sources.registries.insert(0, own);
    }
    Ok(sources)
}

/// A program, and the context for the installation of its packages.
pub(super) struct InstallSession {
    pub(super) project: Project,
    pub(super) context: InstallContext,
}

pub(super) fn named_signer(key: Option<&str>) -> anyhow::Result<Option<Signer>> {
    let parsed = key.map(Signer::from_argument).transpose();
    parsed
        .map_err(|error| anyhow::anyhow!("invalid `--key`: {}", haft_core::report::plain(&error.to_string())))
}

/// Returns the trust that requires a signature of this signer.
pub(super) fn signer(key: Option<&str>) -> anyhow::Result<Trust> {
    Ok(named_signer(key)?.map_or(Trust::Nobody, Trust::Named))
}

impl InstallSession {
    /// Opens the program on the command line, or the program of this folder, which need not exist yet.
    pub(super) fn open(common: &Common, terminal: Terminal) -> anyhow::Result<Self> {
        let path = common.program.clone().unwrap_or_else(|| FILE_NAME.into());
        Self::of(Project::open(&path).map_err(project_error)?, common, terminal)
    }

    /// Opens a session without a program: the program.toml of this folder is not read, and opens no credential store
    /// to git.
    pub(super) fn without_program(common: &Common, terminal: Terminal) -> anyhow::Result<Self> {
        let (path, text) = (FILE_NAME.into(), String::new());
        let project = Project { path, text, manifest: Manifest::default(), lock: Lock::default() };
        Self::of(project, common, terminal)
    }

    fn of(project: Project, common: &Common, terminal: Terminal) -> anyhow::Result<Self> {
        let mut context = InstallContext::new(&common.options(terminal, false)?, &project.manifest)?;
        context.access.redactor = terminal.redactor();
        context.progress = terminal.progress();
        Ok(Self { project, context })
    }

    /// Returns the MCP servers of program.toml, and those that skills outside of packages name.
    pub(super) fn servers(&self) -> Vec<McpServer> {
        let manifest = &self.project.manifest;
        let (of_skills, _) = skill_servers(manifest, &self.context.dirs);
        manifest.mcp_servers.iter().cloned().chain(of_skills).collect()
    }

    /// Protects installed content from removal, and reads the pins again: pinned content can then no longer
    /// disappear.
    pub(super) fn hold(&mut self) -> anyhow::Result<Option<Held>> {
        let held = self.context.store.hold().map_err(|error| with_hint(None, error))?;
        self.project = Project::open(&self.project.path).map_err(project_error)?;
        Ok(held)
    }

    pub(super) fn installer(&self) -> Installer<'_> {
        self.context.installer(&self.project)
    }

    pub(super) fn entry(&self, kind: Kind, name: &str) -> Option<ProjectEntry> {
        let mut entries = self.project.entries().into_iter();
        entries.find(|entry| entry.kind == kind && entry.name.as_str() == name)
    }
}

pub(super) fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Package => "package",
        Kind::Plugin => "plugin",
    }
}

pub(super) fn installed_json(installed: &Installed) -> Value {
    let pin = &installed.pin;
    json!({
        "name": pin.name.as_str(),
        "kind": pin.kind,
        "version": pin.version.as_ref().map(ToString::to_string),
        "source": pin.source.to_string(),
        "resolved": pin.resolved,
        "digest": pin.digest.to_string(),
        "kept": pin.kept.to_string(),
        "signer": pin.signer.as_ref().map(ToString::to_string),
        "contracts": pin.contracts,
        "tools": installed.tools,
        "asked": pin.asked,
        "granted": pin.granted,
    })
}

/// Writes `text` as the program.toml of `project`, unless the file has changed since. The user agrees to the new
/// rights with it.
pub(super) async fn put(project: &Project, text: &str) -> anyhow::Result<()> {
    let path = project.path.as_path();
    let agreed = Agreement::of(Some(path).filter(|path| path.try_exists().unwrap_or(true))).await?;
    replace(project, text)?;
    Agreement::of(Some(path)).await?.agree_since(&agreed)
}

/// Writes `text`, which requests no rights, as the program.toml of `project`, unless the file has changed since.
pub(super) fn replace(project: &Project, text: &str) -> anyhow::Result<()> {
    let store = Store::new(&Dirs::of_this_machine()?.store);
    let replaced = Project::change(&project.path, &store, |now| {
        if now.text != project.text {
            return Err(ProjectError::Changed(project.path.clone()));
        }
        Ok(Change { text: text.to_owned(), lock: now.lock.clone() })
    });
    replaced.map_err(project_error)
}

pub(super) fn with_hint(hint: Option<&str>, error: impl std::fmt::Display) -> anyhow::Error {
    match hint {
        Some(hint) => Hinted::new(format!("{error}"), hint).into(),
        None => anyhow::anyhow!("{error}"),
    }
}

/// Adds the hint to the error of a program that cannot be read or changed.
pub(super) fn project_error(error: ProjectError) -> anyhow::Error {
    match error {
        ProjectError::Manifest(report) => report.into(),
        error => with_hint(error.hint(), error),
    }
}

pub(super) fn install_error(error: InstallError) -> anyhow::Error {
    match error {
        InstallError::Project(error) => project_error(error),
        InstallError::Caller(error) => error,
        // These errors keep their causes.
        error @ (InstallError::Store(_) | InstallError::Tree(_)) => error.into(),
        error => with_hint(error.hint().as_deref(), error),
    }
}

pub(super) struct TerminalConsent<'a> {
    pub(super) rights: &'a Rights,
    pub(super) terminal: Terminal,
    pub(super) session: &'a InstallSession,
    /// The folder that the command was started in, for relative directories on the command line.
    pub(super) here: PathBuf,
    /// The command that shows the cut texts whole.
    pub(super) full_command: String,
}

#[async_trait]
impl Consent for TerminalConsent<'_> {
    async fn decide(&self, proposal: &Proposal<'_>) -> anyhow::Result<Decision> {
        let new = self.new_grants(proposal)?;
        if proposal.candidate.source.is_foreign() {
            for request in &new {
                if let Request::Right(_, right) = request {
                    enforceable(right)?;
                }
            }
        }
        let offered = &proposal.candidate.offered;
        let version = offered.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        // The question repeats the name, because the head of a long page has left the screen.
        let what = format!("`{}`{version}", offered.name);
        let question = match &proposal.operation {
            Operation::Add => format!("Install {what}?"),
            Operation::Adopt => format!("Install {what} with the rights of program.toml?"),
            Operation::Update(Some(reason)) => {
                self.terminal.warning(&format!("`{}` {reason}", offered.name));
                format!("Update {what}?")
            }
            Operation::Update(None) => return Ok(Decision::Install(new)),
        };
        let granted = with_new(proposal.granted, &new);
        if self.agree(&self.page(proposal, &granted), &question).await? {
            Ok(Decision::Install(new))
        } else {
            Ok(Decision::Decline)
        }
    }
}

impl TerminalConsent<'_> {
    /// Returns the rights to grant in addition to the grants of program.toml: all new requests, or the rights of the
    /// command line.
    fn new_grants(&self, proposal: &Proposal<'_>) -> anyhow::Result<Vec<Request>> {
        let offered = &proposal.candidate.offered;
        let folder = self.session.project.folder();
        match proposal.operation {
            Operation::Adopt => Ok(Vec::new()),
            Operation::Update(_) if self.rights.grant.is_empty() => {
                let requests = proposal.more.iter().map(|request| (*request).clone()).collect();
                self.rights.chosen(&Offered { requests, ..offered.clone() }, &self.here, folder)
            }
            Operation::Add | Operation::Update(_) => self.rights.chosen(offered, &self.here, folder),
        }
    }

    /// Returns the page that the user reads before agreeing.
    fn page<'a>(&'a self, proposal: &'a Proposal<'_>, granted: &'a [Request]) -> Page<'a> {
        let is_update = matches!(proposal.operation, Operation::Update(_));
        let before = proposal.previous.as_ref().filter(|_| is_update).map(|previous| Before {
            pin: previous.pin,
            more: proposal.more.to_vec(),
            changes: previous.changes.clone(),
        });
        let context = &self.session.context;
        let dirs = (self.session.project.folder(), context.dirs.home.as_path());
        Page { candidate: proposal.candidate, granted, before, sandbox: &context.sandbox, dirs }
    }

    /// Shows the page, asks the question, and returns whether the user agrees.
    async fn agree(&self, page: &Page<'_>, question: &str) -> anyhow::Result<bool> {
        let (rights, terminal) = (self.rights, self.terminal);
        let rest = (!rights.full).then(|| self.full_command.clone());
        terminal.message(page.render(terminal.message_columns(), rest));
        if rights.yes {
            return Ok(true);
        }
        if !terminal.has_person() {
            let message = "nothing was changed: there is no terminal to ask at";
            let hint =
                "`--yes` agrees without a question; `--grant RIGHT` and `--no-grant` choose the rights";
            terminal.fail(&Hinted::new(message, hint).into());
            return Ok(false);
        }
        if rights.grant.is_empty() && !rights.no_grant && page.granted.iter().any(is_grantable) {
            terminal.hint(
                "to allow less, answer no and repeat with `--grant RIGHT` for each right, or `--no-grant`",
            );
        }
        let agreed = terminal.confirm(question).await?;
        if !agreed {
            terminal.message("nothing was changed");
        }
        Ok(agreed)
    }
}

/// Refuses a right that the sandbox cannot enforce for a process.
pub(super) fn enforceable(right: &Right) -> anyhow::Result<()> {
    if !matches!(right, Right::Cache(_)) {
        return Ok(());
    }
    let text = format!("`{right}` is a right of plugins; it cannot be enforced for a process");
    Err(Hinted::new(text, "it already has its own caches").into())
}
