//! The lines of program.toml that would have allowed what a guest was refused. A hint is a line
//! to paste, or says that there is none; nothing here decides anything.

use std::path::PathBuf;

use super::decisions::Refusal;
use super::failure::Limit;
use super::files::Closed;
use super::state::{Met, State};
use super::tool::GrantPlace;
use super::wanted::Use;
use crate::grant::{AddressError, Destination, Reach};
use crate::limit::Limits;

/// Hints of one refusal; more would bury the message.
const MAX_HINTS: usize = 4;

/// What libraries say of a path below no granted directory, without asking haft.
const MISSING: &[&str] = &["no such file", "no-entry", "bad file number"];

/// What a message says that is about files: Go and Python look for their directories at their start,
/// whatever the tool is about.
const FILES: &[&str] = &[
    "file", "director", "folder", "path", "entry", "read", "write", "open", "access", "permi", "denied", "/",
];

/// The same of one that is about variables.
const VARIABLES: &[&str] = &["environ", "variable", "env"];

/// The same of one that is about arguments.
const ARGUMENTS: &[&str] = &["argument", "argv"];

/// Whose refusal it is.
#[derive(Clone, Copy)]
pub(super) struct Refused<'a> {
    pub(super) plugin: &'a str,
    pub(super) place: &'a GrantPlace,
    pub(super) limits: &'a Limits,
    /// Whether the tool says that it only reads.
    pub(super) only_reads: bool,
}

impl Refused<'_> {
    /// What to add to program.toml for a guest that answered with the error `message`, one hint a line.
    pub(super) fn of_error(&self, state: &State, message: &str) -> Vec<String> {
        let mut hints = self.of_end(state, message);
        if self.is_installed() {
            hints.extend(surroundings(self, state, message));
        }
        if state.budget.met == Some(Met::Memory) {
            hints.extend(self.more(Limit::Memory));
        }
        hints.truncate(MAX_HINTS);
        hints
    }

    /// The same for a guest that came to an end. Not what it could not see of its environment: every
    /// panic of Rust looks there for how to write itself down.
    pub(super) fn of_end(&self, state: &State, message: &str) -> Vec<String> {
        let mut hints = files(self, state);
        if self.is_installed() {
            hints.extend(network(self, state));
        }
        hints.extend(state.http.decisions().refusals().iter().map(|refusal| request(self, refusal)));
        if hints.is_empty() {
            hints.extend(unseen(self, state, message));
        }
        hints.truncate(MAX_HINTS);
        hints
    }

    /// What to add to program.toml for more of a limit, where there can be more.
    pub(super) fn more(&self, limit: Limit) -> Option<String> {
        let line = limit.doubled(self.limits).filter(|_| *self.place == GrantPlace::Plugin)?;
        Some(format!("to allow more, add `{line}` to `[plugins.limits]` of `{}`", self.plugin))
    }

    /// How to grant a host. The tools that come with haft have no table of their own for it.
    fn host(&self, destination: &Destination) -> String {
        match self.place {
            GrantPlace::Sandbox => format!("say `--allow host={destination}`"),
            GrantPlace::FetchAllow => format!("add `fetch_allow = [\"{destination}\"]` to {}", self.table()),
            GrantPlace::SearchUrl => format!("set `search_url` in {} to a page there", self.table()),
            GrantPlace::Plugin | GrantPlace::Package(_) => {
                format!("add `hosts = [\"{destination}\"]` to {}", self.table())
            }
        }
    }

    /// Whether the tool did not come with haft.
    fn is_installed(&self) -> bool {
        matches!(self.place, GrantPlace::Plugin | GrantPlace::Package(_))
    }

    /// The table of program.toml that says what the tool may do.
    fn table(&self) -> String {
        match self.place {
            GrantPlace::Sandbox => "`[sandbox]`".to_owned(),
            GrantPlace::FetchAllow | GrantPlace::SearchUrl => "`[builtins]`".to_owned(),
            GrantPlace::Plugin => format!("`[plugins.grant]` of `{}`", self.plugin),
            GrantPlace::Package(package) => format!("`[packages.grant]` of `{package}`"),
        }
    }
}

fn files(refused: &Refused<'_>, state: &State) -> Vec<String> {
    let (wanted, table) = (&state.wanted, refused.table());
    let mut hints: Vec<String> = wanted.sealed.iter().map(sealed).collect();
    if refused.only_reads && wanted.writes.iter().next().is_some() {
        hints.push("the tool says that it only reads, and is held to it".into());
    } else {
        hints.extend(
            wanted
                .writes
                .iter()
                .map(|directory| format!("to allow it, add `write = [\"{directory}\"]` to {table}")),
        );
    }
    hints.extend(
        wanted
            .reads
            .iter()
            .map(|directory| format!("to allow it, add `read = [\"{directory}\"]` to {table}")),
    );
    if hints.is_empty() {
        let stray = |path| {
            format!(
                "`{path}` leads out of the granted directories through a link; to allow it, grant what it leads to and name that"
            )
        };
        hints.extend(wanted.strays.iter().map(stray));
    }
    hints.extend(
        wanted.unopened.iter().map(|problem| format!("a granted directory cannot be opened: {problem}")),
    );
    hints
}

/// What no line of program.toml allows.
fn sealed((closed, what_for, path): &(Closed, Use, PathBuf)) -> String {
    let path = path.display();
    match (closed, what_for) {
        (Closed::Hidden, Use::Read) => format!("`{path}` belongs to haft itself: tools may not read it"),
        (Closed::Hidden, Use::Write) => format!("`{path}` belongs to haft itself: tools may not change it"),
        (Closed::Fixed, _) => format!("`{path}` says what tools may do: tools may not change it"),
    }
}

/// A path below no granted directory is none to a guest's C library, which does not ask haft then.
/// It asks for the directories for other reasons too.
fn unseen(refused: &Refused<'_>, state: &State, message: &str) -> Option<String> {
    let (plugin, table) = (refused.plugin, refused.table());
    let lines = format!("add `read = [\"DIR\"]` or `write = [\"DIR\"]` to {table}");
    if state.wanted.files && mentions(message, FILES) {
        return Some(format!("`{plugin}` was granted no directory; to allow one, {lines}"));
    }
    let asked = state.wanted.missed || state.grant.readable() == Reach::Anywhere;
    let looked = state.wanted.opened && !asked && mentions(message, MISSING);
    looked.then(|| {
        format!("to `{plugin}` nothing exists but the granted directories; to allow another, {lines}")
    })
}

fn mentions(message: &str, words: &[&str]) -> bool {
    let message = message.to_lowercase();
    words.iter().any(|word| message.contains(word))
}

fn network(refused: &Refused<'_>, state: &State) -> Vec<String> {
    let table = refused.table();
    let mut hints: Vec<String> = Vec::new();
    for address in state.refused.connections() {
        hints.push(format!("to allow the connection, add `hosts = [\"{address}\"]` to {table}"));
    }
    if state.wanted.names {
        hints.push(format!("no plugin looks names up; to allow connections to an address, add `hosts = [\"ADDRESS:PORT\"]` to {table} and connect to that address"));
    }
    if state.refused.listening() {
        hints.push("no plugin can be connected to; nothing in program.toml allows it".into());
    }
    if state.wanted.datagrams {
        hints.push("plugins have TCP and no UDP; nothing in program.toml allows it".into());
    }
    hints
}

fn request(refused: &Refused<'_>, refusal: &Refusal) -> String {
    match refusal {
        Refusal::Host(destination) => format!("to allow the request, {}", refused.host(destination)),
        Refusal::Blocked(destination) => {
            format!("`{destination}` is blocked, by `fetch_block` in `[builtins]`")
        }
        Refusal::Address(destination, address, why) => {
            let leads = format!("`{destination}` leads to {address}: {why}");
            let granted = match why {
                // No tool needs what is told there, and it is worth a cloud.
                AddressError::Metadata | AddressError::NotLoopback | AddressError::Blocked => return leads,
                AddressError::Loopback if destination.is_localhost() => destination.clone(),
                _ => destination.at(*address),
            };
            format!("{leads}; to allow that address, {}", refused.host(&granted))
        }
        Refusal::Other(why) => why.clone(),
    }
}

/// Last: interpreters look for both at their start, whatever the tool is about; so for either only where
/// the message speaks of it.
fn surroundings(refused: &Refused<'_>, state: &State, message: &str) -> Vec<String> {
    let (plugin, table) = (refused.plugin, refused.table());
    let mut hints = Vec::new();
    if state.wanted.environment && mentions(message, VARIABLES) {
        hints.push(format!(
            "`{plugin}` sees no environment variable; to show it one, add `env = [\"NAME\"]` to {table}"
        ));
    }
    if state.wanted.arguments && mentions(message, ARGUMENTS) {
        hints.push(format!("`{plugin}` has no command-line arguments; a tool gets its input with each call"));
    }
    hints
}
