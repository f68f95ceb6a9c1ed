//! What a guest reached for and was not granted: the source of a refusal's hints. Keeps a few
//! examples of each kind and no more, however often the guest tries.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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
    /// It looked a name up, which no grant allows.
    pub(super) names: bool,
    /// It wanted UDP, which no grant allows.
    pub(super) datagrams: bool,
}

/// What a refused path was to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
