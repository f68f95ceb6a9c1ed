//! The time that haft waits for providers.

use std::time::{Duration, Instant};

use crate::providers::long::all_count_to_the_end;
use crate::providers::misbehaving::all_wait_a_second;

/// Time limit for a vendor's silence, long compared to an answer. Each vendor is silent seven times, all
/// concurrently: 56 s of the test's duration.
const SILENCE: Duration = Duration::from_secs(8);

/// G05, G06: haft repeats requests to vendors that fall silent, and the task ends correctly.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "by night: it measures time"]
async fn a_long_task_outlasts_silence() {
    all_count_to_the_end(Some(SILENCE)).await;
}

/// PL06: haft waits as long as the vendor asks for.
#[tokio::test]
#[ignore = "by night: it measures time"]
async fn the_wait_of_a_rate_limit_is_kept() {
    let started = Instant::now();
    let seconds = all_wait_a_second().await;
    assert!(started.elapsed().as_secs() >= seconds as u64, "{:?}", started.elapsed());
}
