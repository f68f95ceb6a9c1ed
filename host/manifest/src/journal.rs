//! `[journal]`: how much of the journal is kept. It can be lengthened and neither shortened nor switched off: the
//! journal belongs to the user, and a program.toml may be somebody else's.

use haft_core::limit::KeptJournal;

use super::table::table;

table! {
    /// How much of the journal is kept: no less than without this table.
    pub(super) struct JournalKeys = "[journal]" {
        // Fewer bytes make so many files that finding one takes longer than reading it; more are too much to be
        // removed at once when a file goes.
        /// of a file before it is put aside; default `64MiB`, from `1MiB` to `1GiB`
        #[read(size 1 << 20..=1 << 30)]
        #[also("max_size", "file_size", "rotate")]
        size: u64 = KeptJournal::DEFAULT_SIZE,
        // At most what a machine's disk holds.
        /// newer files before one that was put aside is removed; default `512MiB`, at least that, at most
        /// `1024GiB`
        #[read(size KeptJournal::DEFAULT_KEEP..=1 << 40)]
        #[also("max_total", "retention", "total")]
        keep: u64 = KeptJournal::DEFAULT_KEEP,
    }
}

/// Files that make up what is kept: each time one is put aside all are looked at.
const MAX_FILES: u64 = 1024;

impl From<JournalKeys> for KeptJournal {
    fn from(JournalKeys { size, keep }: JournalKeys) -> Self {
        Self { size: size.max(keep / MAX_FILES), keep }
    }
}
