//! Code shared by the verbs for packages: opens the program that a verb changes, and describes the results of
//! `haft_package`. Installs nothing.

use serde_json::{Value, json};

use super::common::Common;
use super::terminal::{Hinted, Terminal};
use haft::program::{Agreement, Dirs, FILE_NAME, InstallContext, skill_servers};
use haft_manifest::{Manifest, McpServer};
use haft_package::registry::Registry;
use haft_package::search::Sources;
use haft_package::signature::{Signer, Trust};
use haft_package::{
    Change, Held, InstallError, Installed, Installer, Kind, Lock, PackageSource, Project, ProjectError,
    Request, Store,
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

/// Returns the signer on the command line.
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

    /// Returns the installer for the program.
    pub(super) fn installer(&self) -> Installer<'_> {
        self.context.installer(&self.project)
    }

    /// Returns the present source of an entry of program.toml.
    pub(super) fn source(&self, kind: Kind, name: &str) -> Option<PackageSource> {
        let mut entries = self.project.entries().into_iter();
        entries.find(|entry| entry.kind == kind && entry.name.as_str() == name).map(|entry| entry.source)
    }

    /// Returns the present grants of an entry.
    pub(super) fn granted(&self, kind: Kind, name: &str) -> Vec<Request> {
        let mut entries = self.project.entries().into_iter();
        let entry = entries.find(|entry| entry.kind == kind && entry.name.as_str() == name);
        entry.map(|entry| entry.granted).unwrap_or_default()
    }
}

/// Returns the result of an installation as data.
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

/// Replaces the text of `project` with `text`. The user wrote it, and so agrees to its requests beyond `agreed`.
pub(super) async fn write_text(project: &Project, text: &str, agreed: &Agreement) -> anyhow::Result<()> {
    let (path, store) = (&project.path, Store::new(&Dirs::of_this_machine()?.store));
    Project::change(path, &store, |now| {
        if now.text != project.text {
            return Err(ProjectError::Changed(path.clone()));
        }
        Ok(Change { text: text.to_owned(), lock: now.lock.clone() })
    })
    .map_err(project_error)?;
    Agreement::of(Some(path)).await?.agree_since(agreed)
}

/// Adds the hint to an error.
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

/// Adds the hint to the error of an installation.
pub(super) fn install_error(error: InstallError) -> anyhow::Error {
    match error {
        InstallError::Project(error) => project_error(error),
        InstallError::Caller(error) => error,
        // These errors keep their causes.
        error @ (InstallError::Store(_) | InstallError::Tree(_)) => error.into(),
        error => with_hint(error.hint().as_deref(), error),
    }
}
