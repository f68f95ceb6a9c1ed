//! `haft verify`: compares installed content, byte by byte, with the agreed content. Fetches and repairs nothing.

use crate::cli::common::Common;
use clap::Args;
use serde::Serialize;

use std::sync::Arc;

use super::Exit;
use super::terminal::{ERROR, GOOD, Terminal, WARNING};
use crate::cli::install_session::{InstallSession, kind_word, project_error};
use haft_mcp::client::Server;
use haft_package::{Kind, PackageSource, Pin, ProjectEntry};

#[derive(Debug, Args)]
pub(super) struct Verify {
    /// The packages, plugins and servers to check [default: all]
    #[arg(value_name = "NAME", add = super::completions::plugins())]
    names: Vec<String>,
}

#[derive(Serialize)]
struct Found {
    name: String,
    kind: &'static str,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// The content matches its pin.
    Good,
    /// The user chose to have no pin.
    Unpinned,
    /// The content differs from its pin, or does not exist.
    Bad,
}

impl Verify {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let mut session = InstallSession::open(common, terminal)?;
        let _held = session.hold()?;
        let is_meant = |name: &str| self.names.is_empty() || self.names.iter().any(|meant| meant == name);
        let servers = Box::pin(servers(&session, common, terminal)).await;
        for name in &self.names {
            if !servers.iter().any(|found| found.name == *name) {
                session.project.entry(name).map_err(project_error)?;
            }
        }
        let mut all = verify_all(&session, is_meant);
        all.extend(servers.into_iter().filter(|found| is_meant(&found.name)));
        if terminal.json {
            terminal.json(&all)?;
        } else {
            terminal.data(&all.iter().map(line).collect::<String>())?;
        }
        let bad = all.iter().filter(|found| found.state == State::Bad).count();
        if bad > 0 && !terminal.json {
            terminal.hint(
                "`haft add` fetches the pinned content; `haft update NAME` shows the new content and asks",
            );
        }
        Ok(if bad > 0 { Exit::Changed } else { Exit::Success })
    }
}

/// Returns a line for each difference from a pin.
pub(super) fn changes(common: &Common, terminal: Terminal) -> anyhow::Result<Vec<String>> {
    let mut session = InstallSession::open(common, terminal)?;
    let _held = session.hold()?;
    let all = verify_all(&session, |_| true).into_iter();
    let bad = all.filter(|found| found.state == State::Bad);
    Ok(bad.map(|found| format!("{}: {}", found.name, found.why.unwrap_or_default())).collect())
}

/// Compares the tools that the program's MCP servers listed last with their pins. Asks no server. Returns nothing if
/// the program cannot be loaded.
async fn servers(session: &InstallSession, common: &Common, terminal: Terminal) -> Vec<Found> {
    if session.servers().is_empty() && session.project.manifest.packages.is_empty() {
        return Vec::new();
    }
    match common.known_program(terminal).await {
        Ok(program) => {
            let is_first = |server: &&Arc<Server>| {
                program.first_lists.iter().any(|first| Arc::ptr_eq(&first.server, server))
            };
            program.servers.iter().filter(|server| !is_first(server)).filter_map(verify_server).collect()
        }
        Err(error) => {
            tracing::debug!(%error, "MCP servers are not compared with their pins");
            Vec::new()
        }
    }
}

fn verify_server(server: &Arc<Server>) -> Option<Found> {
    let found = |state, why| Found { name: server.config().name.clone(), kind: "server", state, why };
    if !server.is_held() {
        return Some(found(State::Unpinned, Some("its tools may change: `pinned = false`".to_owned())));
    }
    let (listed, _) = server.remembered()?;
    let told: Vec<String> = listed.differences.iter().map(ToString::to_string).collect();
    let state = if told.is_empty() { State::Good } else { State::Bad };
    Some(found(state, (!told.is_empty()).then(|| told.join("; "))))
}

fn verify_all(session: &InstallSession, is_meant: impl Fn(&str) -> bool) -> Vec<Found> {
    let entries = session.project.entries();
    let entries = entries.iter().filter(|entry| is_meant(entry.name.as_str()));
    let mut all: Vec<_> = entries.map(|entry| verify_entry(session, entry)).collect();
    let left = session.project.lock.pins.iter().filter(|pin| is_meant(pin.name.as_str()));
    all.extend(left.filter(|pin| session.entry(pin.kind, pin.name.as_str()).is_none()).map(left_over));
    all
}

fn verify_entry(session: &InstallSession, entry: &ProjectEntry) -> Found {
    let (kind, name, source) = (entry.kind, entry.name.as_str(), &entry.source);
    let found =
        |state, why: Option<String>| Found { name: name.to_owned(), kind: kind_word(kind), state, why };
    let Some(pin) = session.project.lock.find(kind, name) else {
        return match (kind, source) {
            // The entry was written by hand, and accepts any content of the file.
            (Kind::Plugin, PackageSource::Path(_)) if entry.signer.is_none() => {
                found(State::Unpinned, Some("a file without a pin".to_owned()))
            }
            _ => found(State::Bad, Some("it is not installed: program.lock has no entry".to_owned())),
        };
    };
    if *source != pin.source {
        let why = format!("program.toml has another source than program.lock: `{}`", pin.source);
        return found(State::Bad, Some(why));
    }
    match session.installer().verify_signed(entry, pin) {
        Ok(()) => found(State::Good, None),
        Err(why) => found(State::Bad, Some(why.to_string())),
    }
}

/// Returns the result for a pin without an entry, after a change of program.toml by hand.
fn left_over(pin: &Pin) -> Found {
    let why = Some("program.lock pins it, but program.toml has no such entry".to_owned());
    Found { name: pin.name.to_string(), kind: kind_word(pin.kind), state: State::Bad, why }
}

fn line(found: &Found) -> String {
    let (mark, style) = match found.state {
        State::Good => ("✓", GOOD),
        State::Unpinned => ("!", WARNING),
        State::Bad => ("✗", ERROR),
    };
    let why = found.why.as_deref();
    let why = why.map(|why| format!(": {}", haft_core::report::plain(why))).unwrap_or_default();
    format!("{style}{mark}{style:#} {}{why}\n", haft_core::report::plain(&found.name))
}
