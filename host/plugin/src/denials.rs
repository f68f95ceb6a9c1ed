//! The refusals of a guest's accesses: recorded as they happen (`denied_access`), written to the journal, and shown as
//! hints: the lines of program.toml that would have allowed a refused access, or the statement that there is no such
//! line. A hint depends on haft's own refusals in this call, never on the guest's message alone.

pub(crate) mod denied_access;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::denials::denied_access::{AccessKind, Protection, Refusal};
use crate::failure::{Limit, bytes};
use crate::instance::state::{ExceededLimit, GuestState};
use haft_core::grant::{AddressError, Destination, Grant, Proposal, Right, RightsTable};
use haft_core::limit::Limits;
use haft_core::report::plain;
use haft_core::tool::{Notes, PLAN_HINT};
use haft_core::units::format_size;
use haft_state::Kept;

/// The place in program.toml that would grant more; part of every refusal's hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantPlace {
    /// The tool is built in and has the rights of `[sandbox]`.
    Sandbox,
    /// The tool is a plugin's and follows its `[plugins.grant]`.
    Plugin,
    /// The tool is a plugin's of the package of this name, and follows its `[packages.grant]`.
    Package(String),
    /// The tool is a part of haft, and reaches the hosts of `[builtins] fetch_allow` besides public ones.
    FetchAllow,
    /// The tool is built in, and reaches the host of `[builtins] search_url`.
    SearchUrl,
}

pub(crate) fn used(notes: &Notes, state: &GuestState, only_reads: bool) {
    notes.memory(state.budget.used());
    let denied = &state.shared.denied;
    if !denied.writes.is_empty() || !denied.reads.is_empty() {
        let mut proposed = rights(state);
        // A tool that declares itself read-only gets no more than read rights.
        proposed.retain(|right| !only_reads || !matches!(right, Right::Write(_)));
        notes.refused(proposed);
    }
    for (what, paths) in [("write below", &denied.writes), ("read below", &denied.reads)] {
        paths.iter().for_each(|place| notes.decision(|| format!("refused: {what} `{place}`")));
    }
    for path in denied.escaping_links.iter() {
        notes.decision(|| format!("refused: `{path}`, a link out of the granted directories"));
    }
    if state.files.disk.is_exceeded() {
        notes.decision(|| "refused: writing more than the disk limit".into());
    }
    for (is_so, what) in [
        (denied.config, "refused: reading a configuration"),
        (denied.state, "refused: storing keys and values"),
        (denied.full_state, "refused: more keys and values than `state` allows"),
        (state.files.is_full(Kept::State), "refused: more files than `state` allows"),
        (state.files.is_full(Kept::Cache), "refused: more files than `cache` allows"),
    ] {
        if is_so {
            notes.decision(|| what.into());
        }
    }
    state.shared.call.asked.iter().for_each(|asked| notes.decision(|| asked.clone()));
    for decision in state.shared.decisions.list() {
        notes.decision(|| decision);
    }
    if denied.names {
        notes.decision(|| "refused: DNS lookup".into());
    }
    if denied.datagrams {
        notes.decision(|| "refused: UDP".into());
    }
}

/// Maximum number of hints of one refusal: more would distract from the message.
const MAX_HINTS: usize = 4;

/// The words that identify a message about a variable. A read of the environment alone causes no hint: interpreters
/// read all of it when they start.
const VARIABLE: &str = "environment variable";

/// The facts about the refused tool that a hint needs.
#[derive(Clone, Copy)]
pub(crate) struct HintContext<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) place: &'a GrantPlace,
    pub(crate) limits: &'a Limits,
    pub(crate) only_reads: bool,
}

impl HintContext<'_> {
    /// Returns the additions to program.toml for a guest that answered with the error `message`, one hint a line.
    pub(crate) fn hints_for_error(&self, state: &GuestState, message: &str) -> Vec<String> {
        let mut hints = self.hints_for_end(state);
        if hints.is_empty() {
            hints.extend(unnamed_paths(self, state, message));
        }
        if state.shared.call.grant.is_planning() {
            return hints;
        }
        if self.is_installed() {
            hints.extend(environment(self, state, message));
        }
        if state.budget.exceeded == Some(ExceededLimit::Memory) {
            hints.extend(self.raise_limit_hint(Limit::Memory));
        }
        if state.shared.call.warned {
            hints.extend(self.raise_limit_hint(Limit::Time));
        }
        hints.truncate(MAX_HINTS);
        hints
    }

    /// Returns the hints for a guest that trapped or was stopped. Leaves out the environment: every Rust panic
    /// reads it for `RUST_BACKTRACE`.
    pub(crate) fn hints_for_end(&self, state: &GuestState) -> Vec<String> {
        if state.shared.call.grant.is_planning() {
            return of_plan_mode(self, state);
        }
        let mut hints: Vec<String> =
            state.files.disk.is_exceeded().then(|| self.disk()).into_iter().collect();
        hints.extend(files(self, state));
        if self.is_installed() {
            hints.extend(kept(self, state));
            hints.extend(network(self, state));
        }
        hints.extend(state.shared.decisions.refusals().iter().map(|refusal| request(self, refusal)));
        hints.truncate(MAX_HINTS);
        hints
    }

    fn disk(&self) -> String {
        let limit = format!("one call may write at most {}", bytes(self.limits.disk));
        self.raise_limit_hint(Limit::Disk).map_or_else(|| limit.clone(), |more| format!("{limit}; {more}"))
    }

    /// Returns the line of program.toml that raises a limit, if it can be raised.
    pub(crate) fn raise_limit_hint(&self, limit: Limit) -> Option<String> {
        if *self.place != GrantPlace::Plugin {
            return None;
        }
        match limit.raised(self.limits) {
            Ok(line) => {
                Some(format!("to allow more, add `{line}` to `[plugins.limits]` of `{}`", self.plugin))
            }
            Err(why) => why,
        }
    }

    /// Returns the way to grant a host. Built-in tools have no table of their own for it.
    fn host(&self, destination: &Destination) -> String {
        match self.place {
            GrantPlace::Sandbox => format!("use `--allow host={destination}`"),
            GrantPlace::FetchAllow => format!("add `fetch_allow = [\"{destination}\"]` to {}", self.table()),
            GrantPlace::SearchUrl => format!("set `search_url` in {} to a page on that host", self.table()),
            GrantPlace::Plugin | GrantPlace::Package(_) => {
                format!("add `hosts = [\"{destination}\"]` to {}", self.table())
            }
        }
    }

    fn is_installed(&self) -> bool {
        matches!(self.place, GrantPlace::Plugin | GrantPlace::Package(_))
    }

    fn config_table(&self) -> String {
        match self.place {
            GrantPlace::Package(package) => format!("`[packages.config]` of `{package}`"),
            _ => format!("`[plugins.config]` of `{}`", self.plugin),
        }
    }

    fn table(&self) -> String {
        match self.place {
            GrantPlace::Sandbox => "`[sandbox]`".to_owned(),
            GrantPlace::FetchAllow | GrantPlace::SearchUrl => "`[builtins]`".to_owned(),
            GrantPlace::Plugin => format!("`[plugins.grant]` of `{}`", self.plugin),
            GrantPlace::Package(package) => format!("`[packages.grant]` of `{package}`"),
        }
    }
}

/// Returns the message and the hints below it, one a line. A name in a hint may be a guest's own, and contain line
/// ends.
pub(crate) fn with_hints(mut message: String, hints: Vec<String>) -> String {
    for hint in hints {
        // Writing to a `String` cannot fail.
        let _ = write!(message, "\nhint: {}", plain(&hint));
    }
    message
}

const DEFAULT_STATE: &str = "10MiB";

/// Returns the file rights that would have allowed the refused accesses, if they are proposed.
pub(crate) fn rights(state: &GuestState) -> Vec<Right> {
    let writes = state.shared.denied.writes.paths().map(|path| Proposal::for_path(path).right(Right::Write));
    let reads = state.shared.denied.reads.paths().map(|path| Proposal::for_path(path).right(Right::Read));
    let rights: Option<Vec<Right>> = writes.chain(reads).collect();
    let mut rights = rights.unwrap_or_default();
    rights.dedup();
    rights
}

fn files(context: &HintContext<'_>, state: &GuestState) -> Vec<String> {
    let (denied, table) = (&state.shared.denied, context.table());
    let mut hints: Vec<String> = denied
        .protected
        .iter()
        .flat_map(|refused| protected(refused, &state.shared.call.grant, &table))
        .collect();
    if context.only_reads && !denied.writes.is_empty() {
        hints.push("the tool declares that it is read-only; haft enforces it".into());
    } else {
        hints.extend(proposals("write", denied.writes.paths(), &table));
    }
    hints.extend(proposals("read", denied.reads.paths(), &table));
    if hints.is_empty() {
        let hint = |link| {
            format!(
                "`{link}` is a link to a target outside the granted directories; to allow it, grant the \
                 target and use its path"
            )
        };
        hints.extend(denied.escaping_links.iter().map(hint));
    }
    let missed = denied.missed();
    hints.extend(
        missed.map(|(name, problem)| format!("a granted directory cannot be opened: `{name}`: {problem}")),
    );
    hints
}

/// Returns the hints in plan mode: no line of program.toml allows writing; a line can allow reading.
fn of_plan_mode(context: &HintContext<'_>, state: &GuestState) -> Vec<String> {
    let (denied, connected) =
        (&state.shared.denied, !state.shared.decisions.refused_addresses().0.is_empty());
    let requested = !state.shared.decisions.refusals().is_empty();
    let is_stopped = !denied.writes.is_empty() || denied.state || denied.names || connected || requested;
    let reads = proposals("read", denied.reads.paths(), &context.table());
    is_stopped.then(|| PLAN_HINT.to_owned()).into_iter().chain(reads).take(MAX_HINTS).collect()
}

/// Returns the lines that would allow `right` to `paths`, each once; or why none is proposed.
fn proposals<'p>(right: &str, paths: impl Iterator<Item = &'p Path>, table: &str) -> Vec<String> {
    let table = RightsTable::Named(table.to_owned());
    let all: BTreeSet<Proposal> = paths.map(Proposal::for_path).collect();
    all.into_iter().map(|proposal| proposal.hint(right, &table)).collect()
}

/// Returns the hint for a path that the guest's message names though no argument does.
fn unnamed_paths(context: &HintContext<'_>, state: &GuestState, message: &str) -> Vec<String> {
    let Some((what_for, path)) = state.shared.denied.named_in(message) else { return Vec::new() };
    if state.shared.call.grant.is_planning() && *what_for == AccessKind::Write {
        return vec![PLAN_HINT.to_owned()];
    }
    let right = match what_for {
        AccessKind::Read => "read",
        AccessKind::Write => "write",
    };
    proposals(right, std::iter::once(path.as_path()), &context.table())
}

/// Returns the setting that opens a closed path, or that no line of program.toml does.
fn protected(
    (level, what_for, path): &(Protection, AccessKind, PathBuf),
    grant: &Grant,
    table: &str,
) -> Vec<String> {
    let named = RightsTable::Named(table.to_owned());
    let closed = grant.closed_at(path).and_then(|closed| Some((closed, closed.hint(&named)?)));
    if let Some((closed, hint)) = closed {
        // A path without a grant to write stays unwritable even when opened.
        let is_to_no_avail = *what_for == AccessKind::Write && !grant.writable().covers(&closed.root);
        return if is_to_no_avail {
            proposals("write", std::iter::once(path.as_path()), table)
        } else {
            vec![hint]
        };
    }
    let path = path.display();
    vec![match (level, what_for) {
        (Protection::Hidden, AccessKind::Read) => {
            format!("`{path}` belongs to haft: tools may not read it")
        }
        (Protection::Hidden, AccessKind::Write) => {
            format!("`{path}` belongs to haft: tools may not change it")
        }
        (Protection::ReadOnly, _) => format!("`{path}` sets the tools' rights: tools may not change it"),
    }]
}

fn kept(context: &HintContext<'_>, state: &GuestState) -> Vec<String> {
    let (denied, table) = (&state.shared.denied, context.table());
    let mut hints = Vec::new();
    if denied.state {
        hints.push(format!("to let it store keys and values, add `state = \"{DEFAULT_STATE}\"` to {table}"));
    }
    let quotas = [
        (
            "state",
            state.shared.call.grant.state(),
            denied.full_state || state.files.is_full(Kept::State),
            Limits::MAX_STATE,
        ),
        ("cache", state.shared.call.grant.cache(), state.files.is_full(Kept::Cache), Limits::MAX_CACHE),
    ];
    for (name, quota, is_full, most) in quotas {
        let Some(quota) = quota.filter(|_| is_full) else { continue };
        let more = quota.saturating_mul(2).min(most);
        let line = format!("`{name}` allows {}", bytes(quota));
        let way = (more > quota)
            .then(|| format!("; to allow more, set `{name} = \"{}\"` in {table}", format_size(more)));
        hints.push(line + &way.unwrap_or_default());
    }
    if denied.config {
        hints.push(format!("to configure it, add its keys to {}", context.config_table()));
    }
    hints
}

fn network(context: &HintContext<'_>, state: &GuestState) -> Vec<String> {
    let table = context.table();
    let mut hints: Vec<String> = Vec::new();
    let (connections, listened) = state.shared.decisions.refused_addresses();
    for address in connections {
        hints.push(format!("to allow the connection, add `hosts = [\"{address}\"]` to {table}"));
    }
    if state.shared.denied.names {
        hints.push(format!(
            "plugins have no DNS; to allow a connection, add `hosts = [\"ADDRESS:PORT\"]` to \
            {table} and connect to that address"
        ));
    }
    if listened {
        hints.push("plugins cannot listen; no key of program.toml allows it".into());
    }
    if state.shared.denied.datagrams {
        hints.push("plugins have no UDP; no key of program.toml allows it".into());
    }
    hints
}

fn request(context: &HintContext<'_>, refusal: &Refusal) -> String {
    match refusal {
        Refusal::Host(destination) => format!("to allow the request, {}", context.host(destination)),
        Refusal::Blocked(destination) => {
            format!("`{destination}` is blocked by `fetch_block` in `[builtins]`")
        }
        Refusal::Address(destination, address, why) => {
            let leads = format!("`{destination}` resolves to {address}: {why}");
            let granted = match why {
                // The metadata service returns the credentials of a cloud machine, and no tool needs it.
                AddressError::Metadata | AddressError::NotLoopback | AddressError::Blocked => return leads,
                AddressError::Loopback if destination.is_localhost() => destination.clone(),
                _ => destination.at(*address),
            };
            format!("{leads}; to allow that address, {}", context.host(&granted))
        }
        Refusal::Other(why) => why.clone(),
    }
}

/// Returns the hint for a missing variable. The name is unknown, because WASI passes all variables at once.
fn environment(context: &HintContext<'_>, state: &GuestState, message: &str) -> Option<String> {
    let (plugin, table) = (context.plugin, context.table());
    let is_about_one = state.shared.denied.environment && message.to_lowercase().contains(VARIABLE);
    is_about_one.then(|| {
        format!(
            "`{plugin}` may read no environment variable; to allow one, add `env = [\"NAME\"]` to {table}"
        )
    })
}
