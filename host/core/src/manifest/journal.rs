//! `[journal]`: how much of the journal is kept. It can be lengthened and neither shortened nor switched off: the
//! journal belongs to the user, and a program.toml may be somebody else's.

use super::section::Section;
use super::table::table;

table! {
    /// How much of the journal is kept: no less than without this table.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct JournalTable = "[journal]" => Self::in_few_files {
        // Fewer bytes make so many files that finding one takes longer than reading it; more are too much to be
        // removed at once when a file goes.
        /// of a file before it is put aside; default `64MiB`, from `1MiB` to `1GiB`
        #[read(size 1 << 20..=1 << 30)]
        #[also("max_size", "file_size", "rotate")]
        pub size: u64 = Self::DEFAULT_SIZE,
        // At most what a machine's disk holds.
        /// newer files before one that was put aside is removed; default `512MiB`, at least that, at most
        /// `1024GiB`
        #[read(size Self::DEFAULT_KEEP..=1 << 40)]
        #[also("max_total", "retention", "total")]
        pub keep: u64 = Self::DEFAULT_KEEP,
    }
}

impl JournalTable {
    /// Some hundred thousand lines, which are gone through in a moment.
    const DEFAULT_SIZE: u64 = 64 << 20;
    /// More than a million lines: years of a person's work. A busy server writes a gigabyte in five minutes and says
    /// what it wants kept; a notebook has this much to spare.
    pub const DEFAULT_KEEP: u64 = 512 << 20;
    /// Files that make up what is kept: each time one is put aside all are looked at.
    const MAX_FILES: u64 = 1024;

    fn in_few_files(self, _: &Section<'_>) -> Option<Self> {
        Some(Self { size: self.size.max(self.keep / Self::MAX_FILES), ..self })
    }
}
