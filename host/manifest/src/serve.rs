//! `[serve]`: how many clients `haft serve --http` takes, where they find it, and who they may be.

use std::time::Duration;

use super::caller::CallerTable;
use super::entry::Entry;
use super::table::table;
use super::values::URL;

table! {
    /// How many clients `haft serve --http` takes, and who they may be.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Serve = "[serve]" {
        // Of clients up to 2025-11-25: an idle one holds 1 to 2 KiB; at most more than a process has memory for.
        /// sessions at once; default 2048
        #[read(count 1..=1_000_000)]
        #[also("sessions")]
        pub max_sessions: u32 = 2048,
        // At least one for a client, and one for a connection that has not shown the token yet; at most more than a
        // process may have open.
        /// connections at once; default 8192
        #[read(count 2..=1_000_000)]
        #[also("connections", "max_clients", "clients")]
        pub max_connections: u32 = 8192,
        /// where clients find it, as `https://tools.example.org/mcp`; absent: at the host that their requests name
        #[read(URL, Entry::url)]
        #[also("public_url", "base_url", "resource")]
        pub url: Option<String> = None,
        // Two checks of a balancer that asks every second, and some to spare; at most more than any balancer needs.
        /// how long `haft serve --http` still takes calls once it is told to end, while `/readyz` says 503, where a balancer
        /// asks that or calls are under way; default `3s`, at most `600s`
        #[read(time Duration::ZERO..=Duration::from_mins(10))]
        #[also("drain_time", "grace", "lame_duck")]
        pub drain: Duration = Duration::from_secs(3),
        /// who may call, each its own tools; absent: whoever has the token calls all
        #[read(Vec::<CallerTable>::KIND, callers)]
        #[also("caller", "users", "tokens", "auth")]
        pub callers: Vec<CallerTable> = Vec::new(),
    }
}

fn callers(entry: &Entry<'_>) -> Option<Vec<CallerTable>> {
    if entry.raw().as_array().is_some_and(|callers| callers.len() > CallerTable::MAX_CALLERS) {
        entry.reject::<()>(format!("at most {} callers can be told apart", CallerTable::MAX_CALLERS));
    }
    entry.tables("callers")
}
