//! The signal dispositions that a command inherits: none is ignored, none is blocked.

use haft::native::bash::Bash;
use serde_json::json;

use crate::common::HANG;
use crate::workspace::{Workspace, confiner};

/// SB05: a command inherits no ignored and no blocked signal from the helper, which waits for its children with
/// signals.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_starts_with_no_signal_ignored_or_held_back() {
    let workspace = Workspace::new();
    let bash = Bash::new(confiner(), HANG);
    let status = workspace
        .call(&bash, json!({ "command": "grep -E 'SigBlk|SigIgn' /proc/self/status" }))
        .await
        .unwrap();
    // The C library reserves the first two real-time signals.
    let masks: Vec<u64> = status
        .content
        .lines()
        .map(|line| {
            u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap() & !0x1_8000_0000
        })
        .collect();
    assert_eq!(masks, [0, 0], "{}", status.content);
}
