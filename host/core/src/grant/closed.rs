//! The files and directories that stay closed to every grant, the reasons, and the settings that open them. The
//! intersection of two grants closes the paths that either grant closes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::{CredentialStore, Grant, HostName, RightsTable, Root, push_new};

/// The reason for closing a file, or a directory with everything below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A file of haft, or a file that decides rights: no setting opens it.
    Own,
    /// A path in `deny`.
    Denied,
    /// A part of this credential store, which [`Grant::with_credentials`] opens.
    Store(CredentialStore),
    /// A file whose content programs execute automatically. It may be read; a grant in `write` opens it.
    StartUp,
}

/// A closed file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The file or directory.
    pub root: Root,
    /// The reason.
    pub why: Why,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sealed {
    /// Neither readable nor writable.
    hidden: Vec<Closed>,
    /// The paths closed for writing.
    fixed: Vec<Closed>,
    pub(super) hosts: Vec<HostName>,
}

impl Grant {
    /// Closes a file, or a directory with everything below it: neither readable nor writable, even if everything
    /// else is.
    #[must_use]
    pub fn with_hidden(self, root: Root) -> Self {
        self.with_hidden_because(Why::Own, root)
    }

    /// Closes a path for reading and writing, for this reason; that of a credential store unless the store is open.
    #[must_use]
    pub fn with_hidden_because(mut self, why: Why, root: Root) -> Self {
        push_new(&mut Arc::make_mut(&mut self.sealed).hidden, Closed { root, why });
        self
    }

    /// Opens a credential store: its files become like any other.
    #[must_use]
    pub fn with_credentials(mut self, store: CredentialStore) -> Self {
        self.credentials.insert(store);
        self
    }

    /// Closes a file, or a directory with everything below it, for writing.
    #[must_use]
    pub fn with_fixed(self, root: Root) -> Self {
        self.fixing(Closed { root, why: Why::Own })
    }

    /// Closes a path whose content programs execute automatically, for writing.
    #[must_use]
    pub fn with_start_up(self, root: Root) -> Self {
        self.fixing(Closed { root, why: Why::StartUp })
    }

    /// Adds the closed paths of `other`.
    #[must_use]
    pub fn with_protected_paths_of(mut self, other: &Self) -> Self {
        self.sealed = self.sealed.join(&other.sealed);
        self
    }

    fn fixing(mut self, closed: Closed) -> Self {
        push_new(&mut Arc::make_mut(&mut self.sealed).fixed, closed);
        self
    }

    /// Returns the open credential stores.
    pub fn credentials(&self) -> &BTreeSet<CredentialStore> {
        &self.credentials
    }

    /// Returns the files and directories that are neither readable nor writable.
    pub fn hidden(&self) -> impl Iterator<Item = &Root> + Clone {
        self.hidden_for_reasons().map(|closed| &closed.root)
    }

    /// Returns whether `root` is hidden, or below a hidden directory.
    pub fn hides(&self, root: &Root) -> bool {
        self.hidden().any(|hidden| hidden.contains(root))
    }

    /// Returns the files and directories that are not writable.
    pub fn fixed(&self) -> impl Iterator<Item = &Root> + Clone {
        self.sealed.fixed.iter().map(|closed| &closed.root)
    }

    /// Returns all hidden and fixed paths, with the reasons.
    pub fn closed(&self) -> impl Iterator<Item = &Closed> + Clone {
        self.hidden_for_reasons().chain(&self.sealed.fixed)
    }

    /// Returns the files and directories of the credential stores that are open.
    pub fn opened(&self) -> impl Iterator<Item = &Root> + Clone {
        self.sealed.hidden.iter().filter(|closed| self.is_open(closed)).map(|closed| &closed.root)
    }

    fn hidden_for_reasons(&self) -> impl Iterator<Item = &Closed> + Clone {
        self.sealed.hidden.iter().filter(|closed| !self.is_open(closed))
    }

    /// Returns whether a closed path belongs to a credential store that is open.
    fn is_open(&self, closed: &Closed) -> bool {
        match closed.why {
            Why::Store(store) => self.credentials.contains(&store),
            Why::Own | Why::Denied | Why::StartUp => false,
        }
    }

    /// Returns the reason that closes the file at the real path `path`; of several, the one that is hardest to
    /// open.
    pub fn closed_at(&self, path: &Path) -> Option<&Closed> {
        let around = self.closed().filter(|closed| path.starts_with(closed.root.real()));
        around.min_by_key(|closed| closed.why)
    }

    /// Returns the closed paths that caused the output `text` of a failed program, as far as program.toml could
    /// open them: the text names the path, or contains the typical message for a closed store.
    pub fn closed_in(&self, text: &str) -> Vec<&Closed> {
        let mut found: Vec<&Closed> = Vec::new();
        for closed in self.closed().filter(|closed| closed.why != Why::Own) {
            let is_listed = |other: &&Closed| other.why == closed.why && matches!(closed.why, Why::Store(_));
            if !found.iter().any(is_listed) && self.is_about(text, closed) {
                found.push(closed);
            }
        }
        found
    }

    fn is_about(&self, text: &str, closed: &Closed) -> bool {
        let Closed { root, why } = closed;
        let signs = if let Why::Store(store) = why { store.signs() } else { &[] };
        // Programs print paths relative to their working directory.
        let inside = self.base().and_then(|base| root.path().strip_prefix(base.path()).ok());
        let inside = inside.filter(|_| *why == Why::StartUp);
        let paths = [root.path(), root.real()].into_iter().chain(inside);
        signs.iter().any(|sign| text.contains(sign)) || paths.into_iter().any(|path| names(text, path))
    }
}

/// Returns whether `text` contains `path`, not only as the beginning of another name.
fn names(text: &str, path: &Path) -> bool {
    let Some(path) = path.to_str().filter(|path| !path.is_empty()) else { return false };
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_'));
    text.match_indices(path).any(|(at, _)| !goes_on(text.get(at + path.len()..).unwrap_or_default()))
}

impl Closed {
    /// Returns the line of `table` in program.toml that would open it, for the hint of a refusal; `None` if no line
    /// does.
    pub fn hint(&self, table: &RightsTable) -> Option<String> {
        let path = self.root.path().display();
        match self.why {
            Why::Own => None,
            Why::Denied => Some(format!("`{path}` is blocked by `deny` in {}", table.name())),
            Why::Store(store) => Some(format!(
                "`{path}` is blocked: it belongs to the credential store `{store}`; to allow tools to read \
                 it, {}",
                table.line("credentials", &store.to_string())
            )),
            Why::StartUp => Some(format!(
                "`{path}` is run automatically by other programs, so tools may not change it; to allow it, \
                 {}",
                table.line("write", &self.root.path().to_string_lossy())
            )),
        }
    }
}

impl Sealed {
    /// Returns the paths that either closes.
    pub(super) fn join(self: &Arc<Self>, other: &Arc<Self>) -> Arc<Self> {
        if Arc::ptr_eq(self, other) || **other == Self::default() {
            return self.clone();
        }
        if **self == Self::default() {
            return other.clone();
        }
        let mut joined = Self::clone(self);
        other.hidden.iter().for_each(|closed| push_new(&mut joined.hidden, closed.clone()));
        other.fixed.iter().for_each(|closed| push_new(&mut joined.fixed, closed.clone()));
        other.hosts.iter().for_each(|host| push_new(&mut joined.hosts, host.clone()));
        Arc::new(joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(path: &str) -> Root {
        Root::resolve(Path::new("/"), Path::new(path)).unwrap()
    }

    fn store(name: &str) -> CredentialStore {
        name.parse().unwrap()
    }

    fn closing() -> Grant {
        let grant = Grant::none().with_workspace(root("/nowhere/work"));
        let grant = grant
            .with_hidden(root("/nowhere/haft"))
            .with_hidden_because(Why::Denied, root("/nowhere/private"));
        let grant = grant.with_hidden_because(Why::Store(store("ssh")), root("/nowhere/.ssh"));
        grant.with_start_up(root("/nowhere/work/.git/config"))
    }

    /// F1: opening a store opens nothing else, and an intersection opens only what both grants open.
    #[test]
    fn a_store_is_opened_by_its_name_and_by_both_grants() {
        let opened = closing().with_credentials(store("ssh"));
        assert!(closing().hides(&root("/nowhere/.ssh/id")) && !opened.hides(&root("/nowhere/.ssh/id")));
        assert!(opened.hides(&root("/nowhere/haft/x")) && opened.hides(&root("/nowhere/private")));
        assert!(closing().with_credentials(store("gh")).hides(&root("/nowhere/.ssh")));
        assert!(opened.intersect(&Grant::none()).hides(&root("/nowhere/.ssh")));
        assert!(
            !opened.intersect(&Grant::none().with_credentials(store("ssh"))).hides(&root("/nowhere/.ssh"))
        );
        let own = opened.with_hidden(root("/nowhere/.ssh/key"));
        assert!(own.hides(&root("/nowhere/.ssh/key")) && !own.hides(&root("/nowhere/.ssh/id")));
    }

    /// F1: a failure is attributed to the closed path in its text, or to the closed store that its text is typical
    /// of.
    #[test]
    fn a_failure_is_about_what_it_names_or_what_a_closed_store_sounds_like() {
        let about =
            |text: &str| -> Vec<Why> { closing().closed_in(text).iter().map(|closed| closed.why).collect() };
        let ssh = Why::Store(store("ssh"));
        assert_eq!(about("cat: /nowhere/.ssh/id: Permission denied"), [ssh]);
        assert_eq!(about("git@host: Permission denied (publickey)."), [ssh]);
        assert_eq!(about("cat: /nowhere/.sshd: Permission denied"), []);
        assert_eq!(about("cat: /nowhere/haft: Permission denied"), []);
        assert_eq!(about("could not lock config file .git/config: busy"), [Why::StartUp]);
        assert_eq!(about("/nowhere/private/a, /nowhere/private/b"), [Why::Denied]);
        let opened = closing().with_credentials(store("ssh"));
        assert!(opened.closed_in("/nowhere/.ssh/id").is_empty());
    }

    /// F1: the hint for a closed path contains the line that opens it.
    #[test]
    fn the_hint_is_the_line_that_opens() {
        let hint = |path: &str| {
            closing().closed_at(Path::new(path)).and_then(|closed| closed.hint(&RightsTable::Sandbox))
        };
        let line = "add `credentials = [\"ssh\"]` to `[sandbox]`";
        assert!(hint("/nowhere/.ssh/id").unwrap().ends_with(line));
        assert!(
            hint("/nowhere/work/.git/config").unwrap().contains("`write = [\"/nowhere/work/.git/config\"]`")
        );
        assert_eq!(
            hint("/nowhere/private/x").unwrap(),
            "`/nowhere/private` is blocked by `deny` in `[sandbox]`"
        );
        assert_eq!((hint("/nowhere/haft"), hint("/nowhere/other")), (None, None));
    }
}
