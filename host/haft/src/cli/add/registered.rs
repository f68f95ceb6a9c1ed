//! `haft add mcp:NAME`: adds a server from the registry that the user named, as the package in its entry or as a
//! URL in program.toml.

use super::secrets::Asked;
use super::{Add, Exit, Terminal};
use crate::cli::install_session::{InstallSession, project_error, sources, with_hint, write_text};
use crate::cli::terminal::new_lines;
use haft::program::Agreement;
use haft_core::report::plain;
use haft_manifest::{Name, TextOrSecret};
use haft_package::edit::{self, NewServer};
use haft_package::registry::{Registered, Registry, RegistryError, Start, Wanted};
use haft_package::{Digest, PackageSource, ProjectError};

/// A server of a registry.
pub(super) enum Found {
    /// A package, with its digest if the registry states one.
    Package(PackageSource, Option<Digest>, Asked),
    /// The verb has ended: the entry is written, or the user did not agree.
    Done(Exit),
}

/// Finds the server `named`. Writes the entry of a server with a URL.
pub(super) async fn find(
    add: &Add,
    session: &InstallSession,
    named: &str,
    terminal: Terminal,
) -> anyhow::Result<Found> {
    let registry = registry(add, session)?;
    let mut wanted = Wanted::parse(named).map_err(registry_error)?;
    (wanted.settings, wanted.asks) = (add.settings.pairs()?, add.asks(terminal));
    let (found, asked) = match registry.find(&wanted).await {
        Err(RegistryError::Secrets(fields)) => {
            let asked = Asked::at(terminal, session, wanted.stem(), &fields).await?;
            wanted.settings.extend(asked.settings.clone());
            wanted.asks = false;
            (registry.find(&wanted).await.map_err(registry_error)?, asked)
        }
        found => (found.map_err(registry_error)?, Asked::default()),
    };
    found.notes.iter().for_each(|note| terminal.message(format_args!("note: {note}")));
    let Registered { version, start, .. } = found;
    let named = format!("`{}` {} of `{}`", plain(named), plain(&version), registry.shown());
    match start {
        Start::Package { source, digest } => {
            terminal.message(format_args!("{named} is `{}`", plain(&source.to_string())));
            Ok(Found::Package(add.settings.with_scripts(source), digest, asked))
        }
        Start::Remote { name, url, headers } => {
            terminal.message(format_args!("{named} answers at `{}`", plain(&url)));
            let server = Server { name: own_name(add, &name)?, url, headers };
            Ok(Found::Done(server.add(add, session, &asked, terminal).await?))
        }
    }
}

/// Returns the registry from the command line, the environment, or the first entry of `sources.toml`.
fn registry(add: &Add, session: &InstallSession) -> anyhow::Result<Registry> {
    if let Some(url) = add.registry.clone().filter(|url| !url.is_empty()) {
        return Ok(Registry { url });
    }
    let missing = || {
        let hint = "set `--registry URL`, the variable `HAFT_MCP_REGISTRY`, or `registries` of \
                    `~/.config/haft/sources.toml`, such as to your company's registry";
        with_hint(Some(hint), "no registry of MCP servers is set, and haft has no default registry")
    };
    sources(&session.context.dirs)?.registries.into_iter().next().ok_or_else(missing)
}

fn registry_error(error: RegistryError) -> anyhow::Error {
    with_hint(error.hint().as_deref(), error)
}

fn own_name(add: &Add, name: &str) -> anyhow::Result<Name> {
    match &add.name {
        Some(name) => Ok(name.clone()),
        None => Name::of_text(name)
            .map_err(|error| with_hint(Some("`--as NAME` names it"), format!("no usable name: {error}"))),
    }
}

/// A server at a URL.
struct Server {
    name: Name,
    url: String,
    headers: Vec<(String, TextOrSecret)>,
}

impl Server {
    /// Shows the entry for program.toml, asks for consent, and writes the entry.
    async fn add(
        &self,
        add: &Add,
        session: &InstallSession,
        asked: &Asked,
        terminal: Terminal,
    ) -> anyhow::Result<Exit> {
        let project = &session.project;
        let name = self.name.as_str();
        if project.manifest.mcp_servers.iter().any(|server| server.name.as_str() == name) {
            let hint = "`--as NAME` gives this server another name; edit program.toml to change an entry";
            return Err(with_hint(
                Some(hint),
                format!("`{}` already has an MCP server `{name}`", project.path.display()),
            ));
        }
        let new =
            NewServer { name, command: &[], url: Some(&self.url), values: &self.headers, enabled: true };
        let failed = |error| project_error(ProjectError::Edit { path: project.path.clone(), error });
        let text = edit::add_server(&edit::begun(&project.text, project.folder()), &new).map_err(failed)?;
        for line in new_lines(&project.text, &text) {
            terminal.message(format_args!("  + {line}"));
        }
        if !add.rights.yes {
            if !terminal.has_person() {
                let hint = "`--yes` agrees without a question";
                return Err(with_hint(Some(hint), "nothing was changed: there is no terminal to ask at"));
            }
            if !terminal.confirm("Write it?").await? {
                terminal.message("nothing was changed");
                return Ok(Exit::Declined);
            }
        }
        asked.store(terminal, session).await?;
        let agreed = Agreement::of(Some(project.path.as_path()).filter(|path| path.exists())).await?;
        write_text(project, &text, &agreed).await?;
        terminal.message(format_args!("wrote `{name}` to `{}`", project.path.display()));
        Ok(Exit::Success)
    }
}
