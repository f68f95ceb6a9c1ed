//! `haft update`: fetches installed entries again. Every difference from the agreed content is shown and needs
//! consent; only identical content is accepted without a question.

mod servers;

use clap::Args;
use serde_json::{Value, json};

use self::servers::Servers;
use super::Exit;
use super::common::Common;
use super::install_args::Rights;
use super::install_session::{
    InstallSession, TerminalConsent, install_error, installed_json, named_signer, project_error,
};
use super::terminal::Terminal;
use super::trusted::Kept;
use haft_core::report::plain;
use haft_package::disclosure::Change;
use haft_package::{InstallError, Installed, Newer, PackageSource, Pin, ProjectEntry, Updated};

#[derive(Debug, Args)]
#[command(
    after_help = "Every change is shown and asked about: scripts, SKILL.md, tool definitions. It also lists \
the tools of the MCP servers and pins them again, with the tools that were held back. `--yes` agrees. `haft \
add SOURCE` changes to another version. Existing grants do not change. Rights that the new version requests \
are added; `--grant RIGHT` adds only these rights, `--no-grant` adds none."
)]
pub(super) struct Update {
    /// The packages, plugins and MCP servers to update [default: all]
    #[arg(value_name = "NAME", add = super::completions::plugins())]
    names: Vec<String>,
    #[command(flatten)]
    rights: Rights,
    /// Report newer versions and changed content, and change nothing; the exit code is 1 if there are any
    #[arg(long, conflicts_with_all = ["yes", "grant", "no_grant", "full", "key"])]
    check: bool,
    /// The new required signer: a public key or its file (cosign or minisign), or `sigstore:ISSUER#SUBJECT`
    #[arg(long, value_name = "FILE|SIGNER", requires = "names")]
    key: Option<String>,
}

enum Outcome {
    Same,
    Updated(Value),
    Declined,
}

#[derive(Default)]
struct Outcomes {
    updated: Vec<Value>,
    declined: Vec<String>,
    has_failed: bool,
    has_versions: bool,
}

impl Outcomes {
    fn note(
        &mut self,
        verb: &Update,
        name: &str,
        outcome: anyhow::Result<Outcome>,
        terminal: Terminal,
    ) -> anyhow::Result<()> {
        match outcome {
            Ok(Outcome::Same) => terminal.message(format_args!("`{name}` is up to date")),
            Ok(Outcome::Updated(described)) => self.updated.push(described),
            Ok(Outcome::Declined) => self.declined.push(name.to_owned()),
            Err(error) if verb.names.len() == 1 => return Err(error),
            // A failed update does not prevent others.
            Err(error) => {
                terminal.fail(&error.context(format!("`{name}` was not updated")));
                self.has_failed = true;
            }
        }
        Ok(())
    }

    fn report(self, terminal: Terminal) -> anyhow::Result<Exit> {
        if self.has_versions && self.updated.is_empty() {
            terminal.hint("`haft update --check` looks for later versions");
        }
        if terminal.json {
            terminal.json(&json!({ "updated": self.updated, "declined": self.declined }))?;
        }
        Ok(match (self.has_failed, self.declined.is_empty()) {
            (true, _) => Exit::Failure,
            (false, false) => Exit::Declined,
            (false, true) => Exit::Success,
        })
    }
}

impl Update {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let session = InstallSession::open(common, terminal)?;
        if self.check {
            let (entries, _) = self.entries(&session, &Servers::default())?;
            return tokio::select! {
                done = check(&session, &entries, terminal) => done,
                _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
            };
        }
        let kept = Kept::before(&session.project.path).await;
        let exit = tokio::select! {
            done = self.update_all(&session, common, terminal) => done?,
            // Dropping the future removes the fetched content.
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        };
        kept.renew().await?;
        Ok(exit)
    }

    async fn update_all(
        &self,
        session: &InstallSession,
        common: &Common,
        terminal: Terminal,
    ) -> anyhow::Result<Exit> {
        let declares = !session.servers().is_empty();
        let servers = if declares || !self.names.is_empty() {
            Box::pin(Servers::load(common, terminal)).await
        } else {
            Servers::default()
        };
        let (entries, own) = self.entries(session, &servers)?;
        if entries.is_empty() && own.is_empty() {
            terminal.message("nothing is installed here: program.lock pins no entry of program.toml");
        }
        let mut outcomes = Outcomes::default();
        for entry in entries {
            let name = entry.name.as_str();
            let mut outcome = self.update(session, &entry, terminal).await;
            if matches!(outcome, Ok(Outcome::Same)) {
                outcomes.has_versions |= matches!(
                    entry.source,
                    PackageSource::Oci(_) | PackageSource::Git { .. } | PackageSource::Foreign(_)
                );
                // The server of an unchanged package may list other tools nevertheless.
                if self.names.iter().any(|named| named == name) {
                    outcome = servers.update(name, (self, session), terminal).await;
                }
            }
            outcomes.note(self, name, outcome, terminal)?;
        }
        for name in own {
            let outcome = servers.update(&name, (self, session), terminal).await;
            outcomes.note(self, &name, outcome, terminal)?;
        }
        servers.close().await;
        outcomes.report(terminal)
    }

    /// Returns the named entries and MCP servers, or all with a pin if no name is given.
    fn entries(
        &self,
        session: &InstallSession,
        servers: &Servers,
    ) -> anyhow::Result<(Vec<ProjectEntry>, Vec<String>)> {
        let project = &session.project;
        if self.names.is_empty() {
            let is_pinned =
                |entry: &ProjectEntry| project.lock.find(entry.kind, entry.name.as_str()).is_some();
            return Ok((project.entries().into_iter().filter(is_pinned).collect(), servers.own()));
        }
        let (mut entries, mut own) = (Vec::new(), Vec::new());
        for name in &self.names {
            match project.entry(name) {
                Ok(entry) => entries.push(entry),
                Err(_) if servers.has(name) => own.push(name.clone()),
                Err(error) => return Err(project_error(error)),
            }
        }
        Ok((entries, own))
    }

    async fn update(
        &self,
        session: &InstallSession,
        entry: &ProjectEntry,
        terminal: Terminal,
    ) -> anyhow::Result<Outcome> {
        let name = entry.name.as_str();
        let (here, full_command) = (std::env::current_dir()?, format!("haft update --full {name}"));
        let consent = TerminalConsent { rights: &self.rights, terminal, session, here, full_command };
        let key = named_signer(self.key.as_deref())?;
        match session.installer().update(entry, key, &consent).await.map_err(install_error)? {
            Updated::Unchanged => Ok(Outcome::Same),
            Updated::Declined => Ok(Outcome::Declined),
            Updated::Replaced { installed, changes } => {
                Ok(Outcome::Updated(report_replaced(session, &installed, changes, terminal)))
            }
        }
    }
}

/// Prints the replaced version and its replacement, and returns them as data.
pub(super) fn report_replaced(
    session: &InstallSession,
    installed: &Installed,
    changes: Option<Vec<Change>>,
    terminal: Terminal,
) -> Value {
    let (kind, name) = (installed.pin.kind, installed.pin.name.as_str());
    let old = session.project.lock.find(kind, name);
    terminal.message(format_args!("updated `{name}`{}", version_change(old, &installed.pin)));
    let mut data = installed_json(installed);
    if let (Some(data), Some(changes)) = (data.as_object_mut(), changes) {
        data.insert("changes".to_owned(), changes.iter().map(change_json).collect());
    }
    data
}

fn change_json(change: &Change) -> Value {
    let lines: Vec<String> = change.lines.iter().map(ToString::to_string).collect();
    json!({ "name": change.name, "what": change.what, "difference": lines })
}

fn version_change(old: Option<&Pin>, new: &Pin) -> String {
    let before = old.and_then(|pin| pin.version.as_ref());
    match (before, new.version.as_ref()) {
        (Some(before), Some(now)) if before == now => format!(" {now}: its content has changed"),
        (Some(before), Some(now)) => format!(" {before} → {now}"),
        (None, Some(now)) => format!(" to {now}"),
        (_, None) => format!(" to {}", new.digest.short()),
    }
}

/// Looks for a newer version of each pinned entry. An error about one entry does not prevent the check of others.
async fn check(
    session: &InstallSession,
    entries: &[ProjectEntry],
    terminal: Terminal,
) -> anyhow::Result<Exit> {
    let (mut found, mut exit) = (Vec::new(), Exit::Success);
    for entry in entries {
        let name = entry.name.as_str();
        let Some(pin) = session.project.lock.find(entry.kind, name) else {
            terminal.message(format_args!(
                "`{name}` is not pinned: run `haft add` to pin the entries of program.toml"
            ));
            continue;
        };
        match session.installer().newer(pin).await {
            Ok(newer) => found.extend(told(pin, &newer, terminal)?),
            Err(error) => {
                fail(name, error, terminal);
                exit = Exit::Failure;
            }
        }
    }
    if terminal.json {
        terminal.json(&json!({ "newer": found }))?;
    }
    Ok(if exit == Exit::Success && !found.is_empty() { Exit::Tool } else { exit })
}

fn fail(name: &str, error: InstallError, terminal: Terminal) {
    terminal.fail(&install_error(error).context(format!("cannot check for a newer `{name}`")));
}

/// Prints the result of a check. Returns it as data if there is a newer version.
fn told(pin: &Pin, newer: &Newer, terminal: Terminal) -> anyhow::Result<Option<Value>> {
    let name = pin.name.as_str();
    let installed = pin.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let (what, command) = match newer {
        Newer::Nothing => {
            terminal.message(format_args!("`{name}`{installed} is the latest"));
            return Ok(None);
        }
        Newer::Unlisted => {
            let source = plain(&pin.source.to_string());
            terminal.message(format_args!(
                "`{name}`{installed}: `{source}` has no list of versions; `haft update {name}` looks"
            ));
            return Ok(None);
        }
        Newer::Version { version, source, is_renamed } => {
            let renamed = if *is_renamed { format!(" --as {name}") } else { String::new() };
            (
                format!("{version}"),
                format!("haft add {}{renamed}", shell_words::quote(&plain(&source.to_string()))),
            )
        }
        Newer::Moved => ("another content".to_owned(), format!("haft update {name}")),
    };
    if !terminal.json {
        terminal.data(&format!("{name}{installed} → {what}: `{command}`"))?;
    }
    let version = if let Newer::Version { version, .. } = newer { Some(version.to_string()) } else { None };
    Ok(Some(json!({
        "name": name,
        "installed": pin.version.as_ref().map(ToString::to_string),
        "version": version,
        "command": command,
    })))
}
