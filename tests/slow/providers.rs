//! The time that haft waits for providers.

use std::time::{Duration, Instant};

use crate::providers::long::all_count_to_the_end;
use crate::providers::misbehaving::all_wait_a_second;

/// How long a vendor may be silent here: long beside an answer. Each is silent seven times, all at the same time: 56 of
/// the seconds that the test takes.
const SILENCE: Duration = Duration::from_secs(8);

/// G05, G06: vendors that fall silent are asked again, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "by night: it measures time"]
async fn a_long_task_outlasts_silence() {
    all_count_to_the_end(Some(SILENCE)).await;
}

/// PL06: what a vendor asks for is waited, not only told.
#[tokio::test]
#[ignore = "by night: it measures time"]
async fn the_wait_of_a_rate_limit_is_kept() {
    let started = Instant::now();
    let seconds = all_wait_a_second().await;
    assert!(started.elapsed().as_secs() >= seconds as u64, "{:?}", started.elapsed());
}
