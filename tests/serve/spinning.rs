//! Eight guests that never end, on a machine that may have fewer processors: other calls are served, and each of the
//! eight can be stopped.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Stage;
use super::peer::{Peer, text};
use crate::common::HANG;

/// Processor time of a process, all its threads together.
fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn spin(peer: &mut Peer) -> Vec<i64> {
    // Once before, so that no guest is compiled while the others spin.
    peer.call("guest__echo", json!({"text": ""}));
    (0..8).map(|_| peer.ask("tools/call", json!({"name": "guest__spin", "arguments": {}}))).collect()
}

/// The states of the guests' threads of a process: R of those that have, or want, a processor.
fn guest_threads(pid: u32) -> Vec<char> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
    stats.filter_map(|stat| stat.split_once("(haft-guest) ")?.1.chars().next()).collect()
}

/// Of guests that compute long as many go on at once as there are processors; the others wait for their turn.
#[test]
fn guests_that_compute_long_take_turns() {
    let processors = std::thread::available_parallelism().unwrap().get();
    if processors >= 7 {
        eprintln!("\nSKIPPED: turns of guests: eight guests have a processor each here\n");
        return;
    }
    let stage = Stage::new("[plugins.limits]\ntime = \"10m\"\n");
    let mut peer = Peer::open(&stage);
    spin(&mut peer);
    let (begun, pid) = (Instant::now(), peer.child.id());
    // One more waits for what they wait for.
    while guest_threads(pid).len() < 9 {
        assert!(begun.elapsed() < HANG, "not all guests have begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    let computing = |_| {
        std::thread::sleep(Duration::from_millis(20));
        guest_threads(pid).into_iter().filter(|state| *state == 'R').count()
    };
    let mut seen: Vec<usize> = (0..25).map(computing).collect();
    seen.sort_unstable();
    // While a turn passes on, two may be seen at it.
    assert!((1..=processors + 1).contains(&seen[12]), "{seen:?} guests computed, on {processors} processors");
    assert_eq!(text(&peer.call("guest__echo", json!({"text": "here"}))), "here");
}

/// WA03: a ping is answered in no time, other tools work, and a cancelled guest stops using the processor.
#[test]
fn wa03_spinning_guests_keep_nobody_waiting() {
    let stage = Stage::new("[plugins.limits]\ntime = \"10m\"\n");
    let mut peer = Peer::open(&stage);
    let calls = spin(&mut peer);
    std::thread::sleep(Duration::from_millis(300));
    let mut pings: Vec<Duration> = (0..20)
        .map(|_| {
            let started = Instant::now();
            assert_eq!(peer.request("ping", json!({}))["result"], json!({}));
            started.elapsed()
        })
        .collect();
    pings.sort();
    let started = Instant::now();
    assert_eq!(text(&peer.call("guest__echo", json!({"text": "still here"}))), "still here");
    eprintln!(
        "ping {:?} (most {:?}), echo {:?} beside 8 spinning guests",
        pings[10],
        pings[19],
        started.elapsed()
    );
    assert!(pings[10] < Duration::from_millis(250), "{pings:?}");
    for call in &calls {
        peer.notify("notifications/cancelled", json!({"requestId": call, "reason": "enough"}));
    }
    assert_eq!(text(&peer.call("guest__echo", json!({"text": "after"}))), "after");
    std::thread::sleep(Duration::from_millis(500));
    let before = processor_time(peer.child.id());
    std::thread::sleep(Duration::from_millis(500));
    let used = processor_time(peer.child.id()).saturating_sub(before);
    assert!(used < Duration::from_millis(250), "cancelled guests used {used:?} in half a second");
    let answered = |id: &i64| peer.aside.iter().any(|message| message["id"] == *id);
    assert!(!calls.iter().any(answered), "what is cancelled is not answered: {:?}", peer.aside);
}

/// Hanging up ends haft, whatever is running.
#[test]
fn wa03_spinning_guests_do_not_keep_haft_from_ending() {
    let stage = Stage::new("[plugins.limits]\ntime = \"10m\"\n");
    let mut peer = Peer::open(&stage);
    spin(&mut peer);
    peer.ask("tools/call", json!({"name": "bash", "arguments": {"command": "sleep 4711 & sleep 4711"}}));
    // A client that hangs up right after a request waits for the answer.
    std::thread::sleep(Duration::from_secs(1));
    let (took, code) = peer.hang_up();
    eprintln!("ended {took:?} after its client hung up, with 8 spinning guests");
    assert_eq!(code, Some(0));
    assert!(took < HANG, "{took:?}");
    let journal = stage.command(&["log", "--json"]).output().unwrap();
    let cancelled = String::from_utf8_lossy(&journal.stdout).matches("\"cancelled\"").count();
    assert!(cancelled >= 8, "what was stopped is noted down: {}", String::from_utf8_lossy(&journal.stdout));
}
