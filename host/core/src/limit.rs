//! How much one call may use: values with defaults, no enforcement. `plugin` and `backend` enforce.

pub mod open_files;

use std::time::Duration;

/// Bounds of one call. The defaults hold wherever program.toml says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of a guest, bytes, all its memories together.
    pub memory: u64,
    /// Wall-clock time from dispatch to answer.
    pub time: Duration,
    /// Bytes of one answer, text and attachments together.
    pub result: u64,
    /// Bytes that a guest may write to files; see `plugin::disk` for what counts.
    pub disk: u64,
}

impl Limits {
    /// 64 MiB: a Rust or C tool needs 1 to 2 MiB, an interpreter 12; room for the data of both.
    pub(crate) const DEFAULT_MEMORY: u64 = 64 << 20;
    /// 30 s: longer than any tool that a model should wait for without being told to.
    pub(crate) const DEFAULT_TIME: Duration = Duration::from_secs(30);
    /// 1 MiB: twenty times what `read` may return, a tenth of what providers accept.
    pub(crate) const DEFAULT_RESULT: u64 = 1 << 20;
    /// 256 MiB: four times what a guest can hold in memory, so that what it makes of that fits, copies
    /// included; a small part of any disk.
    pub(crate) const DEFAULT_DISK: u64 = 256 << 20;
    /// 4 GiB: all that a 32-bit guest can address.
    pub const MAX_MEMORY: u64 = 4 << 30;
    /// One day: a bound that is never met by honest work, so that no wait is without one.
    pub const MAX_TIME: Duration = Duration::from_hours(24);
    /// 64 MiB: an answer is held in memory, copied to the journal and to the model.
    pub const MAX_RESULT: u64 = 64 << 20;
    /// 1 TiB: a bound that only a mistake meets, such as one of units.
    pub const MAX_DISK: u64 = 1 << 40;
    /// 64 KiB: less state, or cache, holds no more than a few files.
    pub const MIN_KEPT: u64 = 64 << 10;
    /// 1 GiB of state: what is larger is a database, and wants a server of its own.
    pub const MAX_STATE: u64 = 1 << 30;
    /// 64 GiB of cache: a model or a few.
    pub const MAX_CACHE: u64 = 64 << 30;
}

impl Limits {
    /// What one call of a hook may use where program.toml says nothing: 2 s, since every call of a tool waits for it.
    pub fn for_hooks() -> Self {
        Self { time: Duration::from_secs(2), ..Self::default() }
    }
}

/// How long instances of a plugin are kept for several calls (`[plugins.reuse]`). What one call leaves in memory the
/// next one sees, so this is for plugins that are slow to start and trusted with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Calls that one instance serves before it is replaced; at least 1.
    pub max_calls: u32,
    /// How long an instance is kept without a call.
    pub max_idle: Duration,
    /// Instances at one time; calls beyond wait. At least 1.
    pub max_concurrent: u32,
}

impl Reuse {
    /// More calls than one run makes.
    pub const MAX_CALLS: u32 = 1_000_000;
}

impl Default for Reuse {
    fn default() -> Self {
        Self { max_calls: 100, max_idle: Duration::from_mins(5), max_concurrent: 1 }
    }
}

/// Bytes of linear memory of all instances that wait for a call (`[prewarm] memory`) where program.toml says nothing:
/// sixteen interpreters, or a hundred small tools.
pub const PREWARMED_MEMORY: u64 = 256 << 20;

/// How much of the journal is kept (`[journal]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptJournal {
    /// Bytes of a file before it is put aside; a thousandth of `keep` at least.
    pub size: u64,
    /// Bytes of newer files that were put aside before one is removed.
    pub keep: u64,
}

impl KeptJournal {
    /// Some hundred thousand lines, which are read in a moment.
    pub const DEFAULT_SIZE: u64 = 64 << 20;
    /// More than a million lines: years of a person's work. A busy server writes a gigabyte in five minutes and says
    /// what it wants kept; a notebook has this much to spare.
    pub const DEFAULT_KEEP: u64 = 512 << 20;
}

impl Default for KeptJournal {
    fn default() -> Self {
        Self { size: Self::DEFAULT_SIZE, keep: Self::DEFAULT_KEEP }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: Self::DEFAULT_MEMORY,
            time: Self::DEFAULT_TIME,
            result: Self::DEFAULT_RESULT,
            disk: Self::DEFAULT_DISK,
        }
    }
}
