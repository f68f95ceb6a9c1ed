//! haft releases memory that it does not need any more while it serves.

#![cfg(target_os = "linux")]

use serde_json::json;

use crate::common::wait::until;
use crate::serve::Stage;
use crate::serve::peer::Peer;

/// A row of `/proc/PID/status`, in KiB.
fn held(peer: &Peer, row: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", peer.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(row)?.strip_prefix(':')).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

/// Waits until the row is at most `most` KiB.
fn await_held(peer: &Peer, row: &str, most: u64) {
    until(&format!("{row} is at most {most} KiB"), || held(peer, row) <= most);
}

/// Concurrent calls.
const AT_ONCE: usize = 12;

/// Makes `AT_ONCE` concurrent calls from `calls`, and waits for all answers.
fn round(peer: &mut Peer, calls: &[(&str, serde_json::Value)]) {
    let calls = calls.iter().cycle().take(AT_ONCE);
    let asked: Vec<i64> = calls
        .map(|(name, arguments)| peer.ask("tools/call", json!({"name": name, "arguments": arguments})))
        .collect();
    for id in asked {
        peer.answer(id);
    }
}

/// S19: haft releases the memory of hostile calls while it serves: large answers and arguments, on as many threads as
/// concurrent calls.
#[cfg(target_env = "gnu")]
#[test]
#[ignore = "by night: it measures time"]
fn memory_stays_flat_under_hostile_calls() {
    const MOST: u64 = 64 << 10;
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    let good = [("guest__echo", json!({"text": "x".repeat(1000)}))];
    (0..3).for_each(|_| round(&mut peer, &good));
    let before = held(&peer, "RssAnon");
    for bytes in [4 << 20, 8 << 20, 16 << 20].repeat(4) {
        round(
            &mut peer,
            &[
                ("guest__flood_result", json!({"bytes": bytes})),
                ("guest__panic", json!({"message": "no"})),
                ("guest__echo", json!({"text": "x".repeat(900_000)})),
                ("guest__unknown", json!({})),
            ],
        );
    }
    (0..3).for_each(|_| round(&mut peer, &good));
    await_held(&peer, "RssAnon", before + MOST);
}

/// S19: each slot of the pool keeps only a little of the stack and the memory of its guests. Measured: 5 to 10 MiB
/// more than before; 28 MiB if stacks keep everything and memories 1 MiB.
#[test]
#[ignore = "by night: it measures time"]
fn what_guests_used_is_given_back() {
    const MOST: u64 = 16 << 10;
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    (0..3).for_each(|_| round(&mut peer, &[("guest__echo", json!({"text": "x"}))]));
    let before = held(&peer, "RssAnon");
    for _ in 0..3 {
        round(&mut peer, &[("guest__recurse", json!({})), ("guest__fill", json!({"bytes": 2 << 20}))]);
    }
    await_held(&peer, "RssAnon", before + MOST);
}
