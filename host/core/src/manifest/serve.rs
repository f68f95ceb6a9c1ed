//! `[serve]`: how many clients `haft serve --http` takes, where they find it, and who they may be.

use std::time::Duration;

use super::caller::CallerTable;
use super::catalogue::SERVE;
use super::entry::Entry;
use super::section::Section;

/// `[serve]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Serve {
    /// Sessions at once, of clients up to 2025-11-25. An idle one holds 1 to 2 KiB.
    pub max_sessions: u32,
    /// Connections at once.
    pub max_connections: u32,
    /// Where clients find it, as `https://tools.example.org/mcp`; `None`: at the host that their requests name.
    pub url: Option<String>,
    /// How long calls are still taken once it is told to end: as long as a balancer takes to notice.
    pub drain: Duration,
    /// `[[serve.callers]]`, in the order of the file; their names are unique. Empty: whoever has the token calls all.
    pub callers: Vec<CallerTable>,
}

impl Default for Serve {
    fn default() -> Self {
        Self { max_sessions: 2048, max_connections: 8192, url: None, drain: Self::DRAIN, callers: Vec::new() }
    }
}

impl Serve {
    /// More than a process has memory for.
    pub(crate) const MAX_SESSIONS: u32 = 1_000_000;
    /// One for a client, and one for a connection that has not shown the token yet.
    pub(crate) const MIN_CONNECTIONS: u32 = 2;
    /// Two checks of a balancer that asks every second, and some to spare.
    const DRAIN: Duration = Duration::from_secs(3);
    /// More than any balancer needs.
    const MAX_DRAIN: Duration = Duration::from_mins(10);
    /// More than a process may have open.
    pub(crate) const MAX_CONNECTIONS: u32 = 1_000_000;

    pub(super) fn read(root: &Section<'_>) -> Self {
        let default = Self::default();
        let Some(section) = root.get("serve", |entry| entry.section(&SERVE)) else {
            return default;
        };
        let count = |key, range| section.get(key, |entry| entry.count(range));
        Self {
            max_sessions: count("max_sessions", 1..=Self::MAX_SESSIONS).unwrap_or(default.max_sessions),
            max_connections: count("max_connections", Self::MIN_CONNECTIONS..=Self::MAX_CONNECTIONS)
                .unwrap_or(default.max_connections),
            url: section.get("url", Entry::url),
            drain: section
                .get("drain", |entry| entry.duration(Duration::ZERO..=Self::MAX_DRAIN))
                .unwrap_or(default.drain),
            callers: CallerTable::read_all(&section),
        }
    }
}
