//! The number of rounds of a benchmark.

/// Enough rounds to show that a benchmark runs; its numbers mean nothing then.
const QUICK: usize = 5;

/// `usual`, or at most [`QUICK`] if `HAFT_BENCH_QUICK` is set.
pub(crate) fn rounds(usual: usize) -> usize {
    if std::env::var_os("HAFT_BENCH_QUICK").is_some() { usual.min(QUICK) } else { usual }
}
