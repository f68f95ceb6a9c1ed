//! Eight endless guests, on a machine that may have fewer processors: haft serves other calls, and each of the eight
//! can be stopped.

use std::time::{Duration, Instant};

use haft::grant::Grant;
use haft::limit::Limits;
use serde_json::json;

use crate::common::repository;
use crate::common::wait::until;
use crate::guest::Guest;
use crate::serve::Stage;
use crate::serve::peer::{Peer, text};

/// The processor time of all threads of a process.
fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// Starts eight guests that spin, and waits until all have begun.
fn spin(peer: &mut Peer) -> Vec<i64> {
    // The call compiles the guest before the others spin.
    peer.call("guest__echo", json!({"text": ""}));
    let spin = json!({"name": "guest__spin", "arguments": {}});
    let calls = (0..8).map(|_| peer.ask("tools/call", spin.clone())).collect();
    // Eight threads of guests, and one that waits for them.
    until("all guests have begun", || guest_threads(peer.child.id()).len() >= 9);
    calls
}

/// The states of a process's guest threads; R for running or ready to run.
fn guest_threads(pid: u32) -> Vec<char> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
    stats.filter_map(|stat| stat.split_once("(haft-guest) ")?.1.chars().next()).collect()
}

/// As many guests compute concurrently as there are processors; the others wait for their turn.
#[test]
#[ignore = "by night: it measures time"]
fn guests_that_compute_long_take_turns() {
    let processors = std::thread::available_parallelism().unwrap().get();
    if processors >= 7 {
        eprintln!("\nSKIPPED: turns of guests: eight guests have a processor each here\n");
        return;
    }
    let stage = Stage::new("[plugins.limits]\ntime = \"10m\"\n");
    let mut peer = Peer::open(&stage);
    spin(&mut peer);
    let pid = peer.child.id();
    std::thread::sleep(Duration::from_millis(500));
    let computing = |_| {
        std::thread::sleep(Duration::from_millis(20));
        guest_threads(pid).into_iter().filter(|state| *state == 'R').count()
    };
    let mut seen: Vec<usize> = (0..25).map(computing).collect();
    seen.sort_unstable();
    // During a change of turns two guests may run.
    assert!((1..=processors + 1).contains(&seen[12]), "{seen:?} guests computed, on {processors} processors");
    assert_eq!(text(&peer.call("guest__echo", json!({"text": "here"}))), "here");
}

/// The median time of a request, the best of three rounds.
fn median(mut request: impl FnMut()) -> Duration {
    let round = |_| {
        let time = |_| {
            let begun = Instant::now();
            request();
            begun.elapsed()
        };
        let mut times: Vec<Duration> = (0..20).map(time).collect();
        times.sort_unstable();
        times[10]
    };
    (0..3).map(round).min().unwrap()
}

/// The processor time of a process in 0.5 s, the least of three rounds.
fn use_of_processor(pid: u32) -> Duration {
    let round = |_| {
        let before = processor_time(pid);
        std::thread::sleep(Duration::from_millis(500));
        processor_time(pid).saturating_sub(before)
    };
    (0..3).map(round).min().unwrap()
}

/// WA03: beside spinning guests haft answers a ping quickly and other tools work; a cancelled guest stops using the
/// processor.
#[test]
#[ignore = "by night: it measures time"]
fn spinning_guests_keep_nobody_waiting() {
    let stage = Stage::new("[plugins.limits]\ntime = \"10m\"\n");
    let mut peer = Peer::open(&stage);
    let pid = peer.child.id();
    peer.call("guest__echo", json!({"text": "compiled"}));
    let alone = median(|| assert_eq!(text(&peer.call("guest__echo", json!({"text": "alone"}))), "alone"));
    let calls = spin(&mut peer);
    let ping = median(|| assert_eq!(peer.request("ping", json!({}))["result"], json!({})));
    assert_eq!(text(&peer.call("guest__echo", json!({"text": "still here"}))), "still here");
    let spinning = use_of_processor(pid);
    eprintln!("ping {ping:?} beside 8 spinning guests, echo {alone:?} without");
    assert!(ping < alone * 50, "ping {ping:?} beside 8 spinning guests, echo {alone:?} without");
    for call in &calls {
        peer.notify("notifications/cancelled", json!({"requestId": call, "reason": "enough"}));
    }
    assert_eq!(text(&peer.call("guest__echo", json!({"text": "after"}))), "after");
    let cancelled = use_of_processor(pid);
    assert!(cancelled < spinning / 4, "{cancelled:?} in half a second when cancelled, {spinning:?} before");
    let answered = |id: &i64| peer.aside.iter().any(|message| message["id"] == *id);
    assert!(!calls.iter().any(answered), "what is cancelled is not answered: {:?}", peer.aside);
}

/// WA03: haft ends when the client closes the input, whatever runs.
#[test]
#[ignore = "by night: it measures time"]
fn spinning_guests_do_not_keep_haft_from_ending() {
    let stage = Stage::new("[plugins.limits]\ntime = \"10m\"\n");
    let mut peer = Peer::open(&stage);
    spin(&mut peer);
    peer.ask("tools/call", json!({"name": "bash", "arguments": {"command": "sleep 4711 & sleep 4711"}}));
    // haft answers requests that come right before the end.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(peer.hang_up(), Some(0));
    let journal = stage.command(&["log", "--json"]).output().unwrap();
    let cancelled = String::from_utf8_lossy(&journal.stdout).matches("\"cancelled\"").count();
    assert!(cancelled >= 8, "what was stopped is noted down: {}", String::from_utf8_lossy(&journal.stdout));
}

/// WA03: with more spinning guests than processors, other calls and timers continue; cancelled guests end by
/// themselves, before the toolbox would give them up after 3 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "by night: it measures time"]
async fn spinning_guests_starve_nobody_and_end_when_cancelled() {
    let limits = Limits { time: Duration::from_mins(10), ..Limits::default() };
    let guest = Guest::within(Grant::none(), limits).await;
    let spinning: Vec<_> = (0..8)
        .map(|number| {
            let guest = guest.clone();
            let tool = if number % 2 == 0 { "spin" } else { "spin_calling" };
            tokio::spawn(async move { guest.fails(tool, json!({})).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let other =
        Guest::of(&repository().join("plugins/built/hello.wasm"), Grant::none(), Limits::default()).await;
    assert_eq!(other.says("hello", json!({ "name": "you" })).await, "hello you");
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(spinning.iter().all(|guest| !guest.is_finished()));
    guest.session.cancel.cancel();
    for (number, end) in spinning.into_iter().enumerate() {
        let tool = if number % 2 == 0 { "spin" } else { "spin_calling" };
        assert_eq!(end.await.unwrap(), format!("Tool error (haft): `{tool}` was cancelled"));
    }
}
