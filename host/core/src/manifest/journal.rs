//! `[journal]`: how much of the journal is kept. It can be lengthened and neither shortened nor switched off: the
//! journal belongs to the user, and a program.toml may be somebody else's.

use super::catalogue::JOURNAL;
use super::section::Section;

/// `[journal]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalTable {
    /// Bytes of a file before it is put aside; a thousandth of `keep` at least.
    pub size: u64,
    /// Bytes of newer files that were put aside before one is removed.
    pub keep: u64,
}

impl Default for JournalTable {
    fn default() -> Self {
        Self { size: Self::DEFAULT_SIZE, keep: Self::DEFAULT_KEEP }
    }
}

impl JournalTable {
    /// Some hundred thousand lines, which are gone through in a moment.
    pub const DEFAULT_SIZE: u64 = 64 << 20;
    /// More than a million lines: years of a person's work. A busy server writes a gigabyte in five minutes and says
    /// what it wants kept; a notebook has this much to spare.
    pub const DEFAULT_KEEP: u64 = 512 << 20;
    /// Fewer than that make so many files that finding one takes longer than reading it.
    pub(crate) const MIN_SIZE: u64 = 1 << 20;
    /// What is removed at once when a file goes.
    pub(crate) const MAX_SIZE: u64 = 1 << 30;
    /// Files that make up what is kept: each time one is put aside all are looked at.
    const MAX_FILES: u64 = 1024;
    /// What a machine's disk holds.
    pub(crate) const MAX_KEEP: u64 = 1 << 40;

    pub(super) fn read(root: &Section<'_>) -> Self {
        let default = Self::default();
        let Some(section) = root.get("journal", |entry| entry.section(&JOURNAL)) else {
            return default;
        };
        let size = |key, least, most| section.get(key, |entry| entry.size(least..=most));
        let keep = size("keep", Self::DEFAULT_KEEP, Self::MAX_KEEP).unwrap_or(default.keep);
        let size = size("size", Self::MIN_SIZE, Self::MAX_SIZE).unwrap_or(default.size);
        Self { size: size.max(keep / Self::MAX_FILES), keep }
    }
}
