//! The number of rounds of a benchmark. Judges no result.

/// Enough to show that a benchmark still runs; its figures say nothing then.
const QUICK: usize = 5;

/// `usual`, or a few where `HAFT_BENCH_QUICK` is set.
pub(crate) fn rounds(usual: usize) -> usize {
    if std::env::var_os("HAFT_BENCH_QUICK").is_some() { usual.min(QUICK) } else { usual }
}
