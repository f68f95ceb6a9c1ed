//! `haft exec`: a command in the sandbox of the program.

use std::time::{Duration, Instant};

use crate::cli::Home;

/// C02: haft closes the socket to the helper before it waits for the helper's end; otherwise the helper lingers for 1
/// s.
#[test]
#[ignore = "by night: it measures time"]
fn a_command_that_has_ended_is_not_waited_for() {
    let home = Home::new();
    let run = || {
        let started = Instant::now();
        let answer = home.haft(&["exec", "--", "true"]);
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        started.elapsed()
    };
    let fastest = (0..3).map(|_| run()).min().unwrap();
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
}
