//! What a guest reached for and was not granted: the source of a refusal's hints. Keeps a few
//! examples of each kind and no more, however often the guest tries.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::files::Closed;
use crate::grant::{Grant, Reach, normalise};

/// What one guest wanted in vain.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent notes")]
pub(super) struct Wanted {
    /// It asked for its directories and had none.
    pub(super) files: bool,
    /// It asked for its environment and had none.
    pub(super) environment: bool,
    /// It asked for its arguments; there are never any.
    pub(super) arguments: bool,
    /// Granted directories that could not be opened, with the reason.
    pub(super) unopened: Vec<String>,
    /// Whether it has opened its directories.
    pub(super) opened: bool,
    /// Whether something it looked for in its directories is not there.
    pub(super) missed: bool,
    /// Directories it was refused to read below.
    pub(super) reads: Few,
    /// Directories it was refused to write below.
    pub(super) writes: Few,
    /// Paths in a granted directory that were refused all the same: a link leads elsewhere.
    pub(super) strays: Few,
    /// What stays closed whatever is granted, and what it was to be used for.
    pub(super) sealed: BTreeSet<(Closed, Use, PathBuf)>,
    /// It looked a name up, which no grant allows.
    pub(super) names: bool,
    /// It wanted UDP, which no grant allows.
    pub(super) datagrams: bool,
}

/// What a refused path was to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    Read,
    Write,
}

impl Wanted {
    /// Notes that `path` was refused to a guest with the rights of `grant`.
    pub(super) fn refuse(&mut self, path: &Path, what_for: Use, grant: &Grant) {
        let path = normalise(path);
        let (reach, few) = match what_for {
            Use::Read => (grant.readable(), &mut self.reads),
            Use::Write => (grant.writable().clone(), &mut self.writes),
        };
        if names(&reach, &path) {
            self.strays.note(path);
        } else {
            few.note(path.parent().unwrap_or(Path::new("/")).to_owned());
        }
    }
}

impl Wanted {
    /// What is still true in the next call of the same instance: what a C library asks for once.
    #[must_use]
    pub(super) fn lasting(&self) -> Self {
        Self {
            files: self.files,
            environment: self.environment,
            arguments: self.arguments,
            unopened: self.unopened.clone(),
            opened: self.opened,
            ..Self::default()
        }
    }

    /// Notes that `path` stays closed, whatever is granted.
    pub(super) fn closed(&mut self, closed: Closed, path: PathBuf, what_for: Use) {
        if self.sealed.len() < Few::MAX {
            self.sealed.insert((closed, what_for, path));
        }
    }
}

/// Whether `path`, taken as text, lies in a directory of `reach`.
fn names(reach: &Reach, path: &Path) -> bool {
    let roots = reach.roots();
    roots.iter().any(|root| path.starts_with(root.path()) || path.starts_with(root.real()))
}

/// A few different texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Few(BTreeSet<PathBuf>);

impl Few {
    /// As many as are told of; see `hints`.
    const MAX: usize = 4;

    /// Bytes of one, the longest path that Linux knows.
    const MAX_LENGTH: usize = 4096;

    /// Keeps `text` if there is room.
    pub(super) fn note(&mut self, text: impl Into<PathBuf>) {
        let text = text.into();
        if self.0.len() < Self::MAX && text.as_os_str().len() <= Self::MAX_LENGTH {
            self.0.insert(text);
        }
    }

    /// What was kept, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = std::path::Display<'_>> {
        self.0.iter().map(|text| text.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::Root;

    #[test]
    fn notes_are_few_and_short() {
        let mut few = Few::default();
        few.note("x".repeat(5000));
        (0..1_000_000).for_each(|number| few.note(format!("/directory/{number}")));
        let kept: Vec<_> = few.iter().map(|path| path.to_string()).collect();
        assert_eq!(kept, ["/directory/0", "/directory/1", "/directory/2", "/directory/3"]);
    }

    #[test]
    fn a_refusal_names_the_directory_that_would_have_to_be_granted() {
        let root = |path: &str| Root::resolve(Path::new("/"), Path::new(path)).unwrap();
        let grant = Grant::none().with_read(root("/nowhere/docs")).with_write(root("/nowhere/out"));
        let mut wanted = Wanted::default();
        wanted.refuse(Path::new("/nowhere/out/../other/file"), Use::Write, &grant);
        wanted.refuse(Path::new("/nowhere/docs/file"), Use::Write, &grant);
        wanted.refuse(Path::new("/nowhere/outside/file"), Use::Read, &grant);
        wanted.refuse(Path::new("/nowhere/out/link/file"), Use::Write, &grant);
        let shown = |few: &Few| few.iter().map(|path| path.to_string()).collect::<Vec<_>>();
        assert_eq!(shown(&wanted.writes), ["/nowhere/docs", "/nowhere/other"]);
        assert_eq!(shown(&wanted.reads), ["/nowhere/outside"]);
        assert_eq!(shown(&wanted.strays), ["/nowhere/out/link/file"]);
    }
}
