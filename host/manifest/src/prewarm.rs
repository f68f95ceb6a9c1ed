//! `[prewarm]`: instances of plugins that are made before they are called.

use haft_core::limit::PREWARMED_MEMORY;

use super::table::table;

table! {
    /// Instances of plugins that are made before they are called, by a process that makes many calls.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Prewarm = "[prewarm]" {
        /// of all instances that wait for a call, given back when there was none for half a minute; `0MiB` for no such
        /// instances, default `256MiB`, at most `64GiB`
        #[read(size 0..=64 << 30)]
        #[also("max_memory", "size", "limit")]
        pub memory: u64 = PREWARMED_MEMORY,
    }
}
