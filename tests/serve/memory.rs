//! What was needed once is not held in memory for as long as haft is served.

#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use serde_json::json;

use super::Stage;
use super::peer::{Peer, text};

/// A row of `/proc/PID/status`, in KiB.
fn held(peer: &Peer, row: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", peer.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(row)?.strip_prefix(':')).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

/// Waits until no more than `most` KiB are held.
fn await_held(peer: &Peer, row: &str, most: u64) {
    let begun = Instant::now();
    while held(peer, row) > most {
        assert!(begun.elapsed() < Duration::from_secs(10), "{row}: {} KiB, not {most}", held(peer, row));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_the_start_needed_is_given_back() {
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    let before = held(&peer, "RssFile");
    peer.request("tools/list", json!({}));
    await_held(&peer, "RssFile", before / 2);
    assert_eq!(text(&peer.call("guest__echo", json!({"text": "and runs on"}))), "and runs on");
}

#[cfg(target_env = "gnu")]
#[test]
fn what_compiling_needed_is_given_back() {
    let stage = Stage::new("");
    let mut command = stage.command(&["serve"]);
    // Nothing is known here yet.
    command.env("XDG_CACHE_HOME", stage.home().join("cache"));
    let mut peer = Peer::of(command);
    peer.initialize("2025-11-25", &json!({}));
    peer.notify("notifications/initialized", json!({}));
    assert_eq!(text(&peer.call("guest__echo", json!({"text": "compiled"}))), "compiled");
    await_held(&peer, "RssAnon", held(&peer, "VmHWM") / 3);
}
