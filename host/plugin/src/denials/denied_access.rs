//! The accesses that a guest attempted without a grant, and the decisions about its network access: the sources of
//! hints. Stores a few examples of each kind, regardless of the number of attempts.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::event::{Event, Events};
use haft_core::grant::{AddressError, Destination, Grant, Reach, normalise};
use haft_core::sync::Lock;

#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent notes")]
pub(crate) struct DeniedAccess {
    /// The guest read its environment, which is empty.
    pub(crate) environment: bool,
    unopened: Vec<UnopenedDirectory>,
    /// Whether the guest has its preopened directories.
    pub(crate) opened: bool,
    pub(crate) reads: PathSamples,
    pub(crate) writes: PathSamples,
    /// Links in a granted directory that point outside all granted directories and were to be followed.
    pub(crate) escaping_links: PathSamples,
    /// Existing paths that were refused and that no argument of the call names: the latest few.
    unnamed: VecDeque<(AccessKind, PathBuf)>,
    /// Protected paths that were refused, and for which use.
    pub(crate) protected: BTreeSet<(Protection, AccessKind, PathBuf)>,
    /// The guest resolved a host name, which no grant allows.
    pub(crate) names: bool,
    /// The guest created a UDP socket, which no grant allows.
    pub(crate) datagrams: bool,
    /// The guest requested its configuration, and has none.
    pub(crate) config: bool,
    /// The guest opened a key-value store, which is not granted.
    pub(crate) state: bool,
    /// The guest would have kept more keys and values than its quota allows.
    pub(crate) full_state: bool,
}

/// A granted directory that could not be opened.
#[derive(Clone, Debug)]
struct UnopenedDirectory {
    name: String,
    problem: String,
    /// Whether the guest named a path in it.
    is_missed: bool,
}

/// Maximum number of recorded paths without a name. The latest paths count: an interpreter probes many paths at its
/// start, before the tool opens any.
const MAX_UNNAMED: usize = 16;

impl DeniedAccess {
    /// Records that `path` was refused to a guest with the rights of `grant`, unless a link from a granted directory
    /// leads to `path`.
    pub(crate) fn refuse(&mut self, path: &Path, what_for: AccessKind, grant: &Grant) {
        let path = normalise(path);
        let (reach, few) = match what_for {
            AccessKind::Read => (grant.readable(), &mut self.reads),
            AccessKind::Write => (grant.writable().clone(), &mut self.writes),
        };
        let lies_in = |unopened: &&mut UnopenedDirectory| path.starts_with(&unopened.name);
        if let Some(unopened) = self.unopened.iter_mut().find(lies_in) {
            unopened.is_missed = true;
        } else if !names(&reach, &path) {
            // Reading a directory takes a right to itself, changing an entry a right to its directory.
            let is_itself = what_for == AccessKind::Read && path.is_dir();
            let directory = if is_itself { Some(path.as_path()) } else { path.parent() };
            few.record(directory.unwrap_or(Path::new("/")));
        }
    }

    /// Records the refusal of a path that no argument of the call names. Only paths that exist, or could be made, are
    /// worth a hint: libraries probe many that do not.
    pub(crate) fn refuse_unnamed(&mut self, path: PathBuf, what_for: AccessKind) {
        let could_be = match what_for {
            AccessKind::Read => path.symlink_metadata().is_ok(),
            AccessKind::Write => path.parent().is_some_and(Path::is_dir),
        };
        let own = (what_for, path);
        if could_be && own.1.as_os_str().len() <= PathSamples::MAX_LENGTH && !self.unnamed.contains(&own) {
            self.unnamed.truncate(MAX_UNNAMED - 1);
            self.unnamed.push_front(own);
        }
    }

    /// Returns a refused path that `message` contains, though no argument does.
    pub(crate) fn named_in(&self, message: &str) -> Option<&(AccessKind, PathBuf)> {
        self.unnamed.iter().find(|(_, path)| path.to_str().is_some_and(|path| message.contains(path)))
    }

    /// Records that the granted directory `name` cannot be opened.
    pub(crate) fn unopened(&mut self, name: &str, problem: String) {
        if !self.unopened.iter().any(|unopened| unopened.name == name) {
            self.unopened.push(UnopenedDirectory { name: name.to_owned(), problem, is_missed: false });
        }
    }

    /// Returns the granted directories that could not be opened and that the guest named a path in, with the
    /// reasons.
    pub(crate) fn missed(&self) -> impl Iterator<Item = (&str, &str)> {
        let missed = self.unopened.iter().filter(|unopened| unopened.is_missed);
        missed.map(|unopened| (&*unopened.name, &*unopened.problem))
    }

    /// Clears the record of granted directories that cannot be opened, because they are opened again.
    pub(crate) fn open(&mut self) {
        self.opened = true;
        self.unopened.clear();
    }

    /// Returns the records that stay valid for the next call of the instance: a C library queries only once.
    #[must_use]
    pub(crate) fn kept_for_next_call(&self) -> Self {
        let still = |unopened: &UnopenedDirectory| UnopenedDirectory { is_missed: false, ..unopened.clone() };
        Self {
            environment: self.environment,
            unopened: self.unopened.iter().map(still).collect(),
            opened: self.opened,
            ..Self::default()
        }
    }

    /// Records that `path` is protected, regardless of the grants.
    pub(crate) fn record_protected(&mut self, level: Protection, path: PathBuf, what_for: AccessKind) {
        if self.protected.len() < PathSamples::MAX {
            self.protected.insert((level, what_for, path));
        }
    }
}

/// Returns whether `path`, as text, is in a directory of `reach`.
fn names(reach: &Reach, path: &Path) -> bool {
    let roots = reach.roots();
    roots.iter().any(|root| path.starts_with(root.path()) || path.starts_with(root.real()))
}

/// A few different paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathSamples(BTreeSet<PathBuf>);

impl PathSamples {
    /// As many as `hints` shows.
    const MAX: usize = 4;

    /// Maximum number of bytes of a path: the longest path of Linux.
    const MAX_LENGTH: usize = 4096;

    pub(crate) fn record(&mut self, text: impl Into<PathBuf>) {
        let text = text.into();
        if self.0.len() < Self::MAX && text.as_os_str().len() <= Self::MAX_LENGTH {
            self.0.insert(text);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = std::path::Display<'_>> {
        self.paths().map(Path::display)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The purpose of a refused access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AccessKind {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protection {
    /// The path may be read, not written.
    ReadOnly,
    /// The path may be neither read nor written.
    Hidden,
}

// The decisions about a guest's network access, in order, and those that a user could change. For a request they hold
// the method and the destination only: the rest may hold secrets.

/// Maximum number of recorded decisions of one call, which bounds a guest in a loop.
const MAX_DECISIONS: usize = 100;

/// Maximum number of characters of a decision: a host name may have 253.
const MAX_LENGTH: usize = 400;

/// Refusals that are kept; `hints` shows as many.
const MAX_REFUSALS: usize = 4;

/// The decisions for one guest. Clones share the decisions, because wasmtime owns some of the deciding callbacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetworkDecisions(Arc<Lock<DecisionList>>);

#[derive(Debug, Default)]
struct DecisionList {
    lines: Vec<String>,
    more: usize,
    refusals: Vec<Refusal>,
    connections: PathSamples,
    listened: bool,
}

/// The reason why a guest's request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host(Destination),
    /// The destination is blocked by `fetch_block`.
    Blocked(Destination),
    /// The destination is granted, but its address is not permitted.
    Address(Destination, IpAddr, AddressError),
    /// A refusal that no grant would change, in one line.
    Other(String),
}

impl NetworkDecisions {
    pub(crate) fn allow(&self, what: impl Display) {
        self.0.lock().push(&format!("allowed {what}"));
    }

    pub(crate) fn refuse(&self, what: impl Display, why: impl Display) {
        self.0.lock().push(&format!("refused {what}: {why}"));
    }

    /// Records a refusal for the hints, if it is new and there is room.
    pub(crate) fn hint(&self, refusal: Refusal) {
        let refusals = &mut self.0.lock().refusals;
        if refusals.len() < MAX_REFUSALS && !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }

    /// Records the address of a refused connection for the hints; `None` for an attempt to listen.
    pub(crate) fn refuse_address(&self, connection: Option<SocketAddr>) {
        let mut list = self.0.lock();
        match connection {
            Some(address) => list.connections.record(address.to_string()),
            None => list.listened = true,
        }
    }

    /// Returns the addresses of refused connections, in order, and whether the guest tried to listen.
    pub(crate) fn refused_addresses(&self) -> (Vec<String>, bool) {
        let list = self.0.lock();
        (list.connections.iter().map(|address| address.to_string()).collect(), list.listened)
    }

    /// Returns the decisions, each in one line; the last line has the number of omitted ones.
    pub(crate) fn list(&self) -> Vec<String> {
        let list = self.0.lock();
        let more = (list.more > 0).then(|| format!("and {} decisions more", list.more));
        list.lines.iter().cloned().chain(more).collect()
    }

    /// Removes all decisions after their emission.
    pub(crate) fn clear(&self) {
        *self.0.lock() = DecisionList::default();
    }

    pub(crate) fn emit_to(&self, call: &str, events: &Events) {
        for decision in self.list() {
            events.emit(|| Event::Decided { call: call.to_owned(), decision });
        }
    }

    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        self.0.lock().refusals.clone()
    }
}

impl DecisionList {
    fn push(&mut self, line: &str) {
        if self.lines.len() < MAX_DECISIONS {
            self.lines.push(line.chars().take(MAX_LENGTH).collect());
        } else {
            self.more += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haft_core::grant::Root;

    #[test]
    fn notes_are_few_and_short() {
        let mut few = PathSamples::default();
        few.record("x".repeat(5000));
        (0..1_000_000).for_each(|number| few.record(format!("/directory/{number}")));
        let recorded: Vec<_> = few.iter().map(|path| path.to_string()).collect();
        assert_eq!(recorded, ["/directory/0", "/directory/1", "/directory/2", "/directory/3"]);
    }

    #[test]
    fn a_refusal_names_the_directory_that_would_have_to_be_granted() {
        let root = |path: &str| Root::resolve(Path::new("/"), Path::new(path)).unwrap();
        let grant = Grant::none().with_read(root("/nowhere/docs")).with_write(root("/nowhere/out"));
        let mut denied = DeniedAccess::default();
        denied.refuse(Path::new("/nowhere/out/../other/file"), AccessKind::Write, &grant);
        denied.refuse(Path::new("/nowhere/docs/file"), AccessKind::Write, &grant);
        denied.refuse(Path::new("/nowhere/outside/file"), AccessKind::Read, &grant);
        denied.refuse(Path::new("/nowhere/out/file"), AccessKind::Write, &grant);
        let directory = tempfile::tempdir().unwrap();
        denied.refuse(directory.path(), AccessKind::Read, &grant);
        let shown = |few: &PathSamples| few.iter().map(|path| path.to_string()).collect::<Vec<_>>();
        assert_eq!(shown(&denied.writes), ["/nowhere/docs", "/nowhere/other"]);
        let mut reads = ["/nowhere/outside".to_owned(), directory.path().display().to_string()];
        reads.sort();
        assert_eq!(shown(&denied.reads), reads);
    }

    #[test]
    fn decisions_are_few_and_short() {
        let decisions = NetworkDecisions::default();
        decisions.refuse("x".repeat(1000), "it is long");
        (0..1000).for_each(|number| decisions.allow(number));
        (0..1000).for_each(|number| decisions.hint(Refusal::Other(number.to_string())));
        let list = decisions.list();
        assert_eq!(list.len(), 101);
        assert_eq!(list[0].len(), 400);
        assert_eq!(list[99..], ["allowed 98", "and 901 decisions more"]);
        assert_eq!(decisions.refusals().len(), 4);
    }
}
