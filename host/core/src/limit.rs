//! The limits of a call: values with defaults. `plugin` and `backend` enforce them.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// The limits of a call. The defaults apply unless program.toml sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The linear memory of a guest in bytes, all its memories together.
    pub memory: u64,
    /// The wall-clock time from dispatch to answer.
    pub time: Duration,
    /// The size of an answer in bytes, text and attachments together.
    pub result: u64,
    /// The bytes that a guest may write to files; `plugin::disk` defines how they are counted.
    pub disk: u64,
}

impl Limits {
    /// 4 GiB: the address space of a 32-bit guest.
    pub const MAX_MEMORY: u64 = 4 << 30;
    /// One day: no useful call takes longer, and no wait is unbounded.
    pub const MAX_TIME: Duration = Duration::from_hours(24);
    /// 64 MiB: an answer is held in memory, and copied to the journal and to the model.
    pub const MAX_RESULT: u64 = 64 << 20;
    /// 1 TiB: only reached by mistake, such as a wrong unit.
    pub const MAX_DISK: u64 = 1 << 40;
    /// 64 KiB: a smaller state or cache holds only a few files.
    pub const MIN_KEPT: u64 = 64 << 10;
    /// 1 GiB of state: larger data belongs in a database server.
    pub const MAX_STATE: u64 = 1 << 30;
    /// 64 GiB of cache: some models.
    pub const MAX_CACHE: u64 = 64 << 30;

    /// Returns the default limits of a call of a hook: 2 s, because every call of a tool waits for it.
    pub fn for_hooks() -> Self {
        Self { time: Duration::from_secs(2), ..Self::default() }
    }
}

/// The reuse of a plugin's instances for several calls (`[plugins.reuse]`). A call can read what an earlier call
/// left in memory, so that reuse is for trusted plugins that are slow to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Maximum number of calls of one instance; at least 1.
    pub max_calls: u32,
    /// Maximum idle time of an instance.
    pub max_idle: Duration,
    /// Maximum number of concurrent instances; further calls wait. At least 1.
    pub max_concurrent: u32,
}

impl Reuse {
    /// More than the number of calls in one run.
    pub const MAX_CALLS: u32 = 1_000_000;
}

impl Default for Reuse {
    fn default() -> Self {
        Self { max_calls: 100, max_idle: Duration::from_mins(5), max_concurrent: 1 }
    }
}

/// The limits of the stored journal (`[journal]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptJournal {
    /// Maximum number of bytes of a file before its rotation; at least a thousandth of `keep`.
    pub size: u64,
    /// Maximum number of bytes of rotated files; beyond it the oldest file is removed.
    pub keep: u64,
}

impl KeptJournal {
    /// Some hundred thousand lines, which are read in a moment.
    pub const DEFAULT_SIZE: u64 = 64 << 20;
    /// More than a million lines: years of one user's work. A busy server writes a gigabyte in five minutes and
    /// configures its own limit; a notebook has this much free space.
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
            // A Rust or C tool needs 1 to 2 MiB, an interpreter 12 MiB; the rest is for data.
            memory: 64 << 20,
            // Longer than a model should wait for any tool by default.
            time: Duration::from_secs(30),
            // Twenty times the limit of `read`, a tenth of what providers accept.
            result: 1 << 20,
            // Four times the memory of a guest, so that its data fits several times; a small part of any disk.
            disk: 256 << 20,
        }
    }
}

/// Returns the soft limit of open files at the first call; `None` for no limit. To be called before the limit is
/// raised.
pub fn original_open_files() -> Option<u64> {
    static ORIGINAL: OnceLock<Option<u64>> = OnceLock::new();
    *ORIGINAL.get_or_init(|| getrlimit(Resource::Nofile).current)
}
