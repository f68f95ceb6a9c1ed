//! Short calls run on the thread that reads them; a call that becomes long does not block other calls.

use serde_json::json;

use super::Stage;
use super::peer::{Peer, text};
use crate::common::wait::until;

/// Number of calls after which haft expects a tool's calls to be short, also on a slow machine.
const KNOWN: u64 = 20;

/// A client that has made `KNOWN` calls.
fn after_known_calls(stage: &Stage) -> Peer {
    let mut peer = Peer::open(stage);
    for _ in 0..KNOWN {
        peer.call("guest__echo", json!({"text": "x"}));
    }
    peer
}

/// A guest that waits moves to another thread, stops when its client cancels it, and does not delay other calls.
#[test]
fn a_call_that_was_brief_may_take_long() {
    let stage = Stage::new("[plugins.limits]\ntime = \"10m\"\n");
    let mut peer = Peer::open(&stage);
    for _ in 0..KNOWN {
        assert_eq!(
            text(&peer.call("guest__wait_cancel", json!({"ms": 0}))),
            "Tool error: not cancelled within 0 ms"
        );
        assert_eq!(text(&peer.call("guest__sleep", json!({"ms": 0}))), "slept 0 ms");
    }
    let waiting = peer.ask("tools/call", json!({"name": "guest__wait_cancel", "arguments": {"ms": 600_000}}));
    let sleeping = peer.ask("tools/call", json!({"name": "guest__sleep", "arguments": {"ms": 300}}));
    assert_eq!(peer.request("ping", json!({}))["result"], json!({}));
    assert_eq!(text(&peer.call("guest__echo", json!({"text": "meanwhile"}))), "meanwhile");
    assert!(!peer.aside.iter().any(|answer| answer["id"] == waiting), "neither waits for what waits");
    peer.notify("notifications/cancelled", json!({"requestId": waiting}));
    assert_eq!(text(&peer.answer(sleeping)["result"]), "slept 300 ms");
    assert_eq!(peer.hang_up(), Some(0));
    let journal = stage.command(&["log", "--json", "--tool", "guest__wait_cancel"]).output().unwrap();
    let journal = String::from_utf8_lossy(&journal.stdout);
    assert!(journal.contains("\"ms\":600000"), "it has ended: {journal}");
    assert!(!peer.aside.iter().any(|message| message["id"] == waiting), "{:?}", peer.aside);
}

/// A guest that computes for longer than a tick moves to another thread and has the same result.
#[test]
fn a_call_that_was_brief_may_compute_for_long() {
    let stage = Stage::new("[plugins.limits]\nmemory = \"1GiB\"\n");
    let mut peer = Peer::open(&stage);
    for _ in 0..KNOWN {
        let answer = peer.call("guest__allocate", json!({"bytes": 1}));
        assert_eq!(text(&answer), "allocated 1048576 bytes in 1 pieces");
    }
    for _ in 0..3 {
        let answer = peer.call("guest__allocate", json!({"bytes": 300 << 20}));
        assert_eq!(text(&answer), "allocated 314572800 bytes in 300 pieces");
        peer.call("guest__allocate", json!({"bytes": 1}));
    }
}

/// Every short call has a fresh instance and a record in the journal.
#[test]
fn brief_calls_share_nothing_and_are_noted() {
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    for _ in 0..KNOWN {
        assert_eq!(text(&peer.call("guest__count_calls", json!({}))), "1");
    }
    assert_eq!(peer.hang_up(), Some(0));
    let journal = std::fs::read_to_string(journal(&stage).join("journal.jsonl")).unwrap();
    let noted = |text: &str| journal.matches(text).count() as u64;
    // A call has a line for its start, unless it ended before that line was written.
    let begun = noted("\"outcome\":\"started\"") + noted("\"merged\":true");
    assert!(noted("\"merged\":true") > 0, "no call waited: {journal}");
    assert_eq!((begun, noted("\"outcome\":\"ok\"")), (KNOWN, KNOWN), "{journal}");
}

/// The journal contains every answered call when haft has ended, also after a second signal.
#[test]
fn what_was_answered_is_noted_when_haft_ends_at_once() {
    let stage = Stage::new("");
    let mut peer = after_known_calls(&stage);
    let id = rustix::process::Pid::from_child(&peer.child);
    until("haft ends", || {
        // The second signal ends haft at once.
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        peer.child.try_wait().unwrap().is_some()
    });
    let journal = std::fs::read_to_string(journal(&stage).join("journal.jsonl")).unwrap();
    assert_eq!(journal.matches("\"outcome\":\"ok\"").count() as u64, KNOWN, "{journal}");
}

/// The journal contains calls without effects while haft runs, without a further call.
#[test]
fn brief_calls_are_noted_while_nothing_else_happens() {
    let stage = Stage::new("");
    let mut peer = after_known_calls(&stage);
    let current = journal(&stage).join("journal.jsonl");
    let ended = || std::fs::read_to_string(&current).unwrap().matches("\"outcome\":\"ok\"").count() as u64;
    until("every call is noted", || ended() >= KNOWN);
    assert_eq!(peer.hang_up(), Some(0));
}

/// `[journal] size` sets the size at which haft rotates the file; the file's new name contains the value of `keep`.
#[test]
fn a_file_of_the_size_that_program_toml_says_is_put_aside() {
    let stage = Stage::new("[journal]\nsize = \"1MiB\"\nkeep = \"1GiB\"\n");
    let mut peer = Peer::open(&stage);
    for _ in 0..100 {
        peer.call("guest__echo", json!({"text": "x".repeat(15_000)}));
    }
    assert_eq!(peer.hang_up(), Some(0));
    let files = std::fs::read_dir(journal(&stage)).unwrap().map(|entry| entry.unwrap().path());
    let aside: Vec<_> = files.filter(|path| path.to_str().unwrap().ends_with("-1024MiB.jsonl")).collect();
    assert!(!aside.is_empty(), "a megabyte and a half in files of one");
    // A group of lines from a confined thread goes to the open file, which may then exceed its size.
    assert!(aside.iter().all(|path| std::fs::metadata(path).unwrap().len() < 2 << 20));
    let log = stage.command(&["log", "--json"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&log.stdout).lines().count(), 100);
}

/// The folder of the journal.
fn journal(stage: &Stage) -> std::path::PathBuf {
    stage.home().join(".local/state/haft/journal")
}

/// If the journal is renamed between calls, the renamed file and the new file together contain every call.
#[test]
fn brief_calls_are_noted_when_the_journal_moves() {
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    let directory = journal(&stage);
    let (current, aside) = (directory.join("journal.jsonl"), directory.join("journal-20200101T000000.jsonl"));
    let mut calls = 0;
    let mut call = |times: u64| {
        (0..times).for_each(|_| drop(peer.call("guest__echo", json!({"text": "x"}))));
        calls += times;
    };
    call(KNOWN / 2);
    until("the journal is there", || current.exists());
    std::fs::rename(&current, &aside).unwrap();
    // haft notices the new name a moment later.
    until("the journal is begun anew", || {
        call(1);
        current.exists()
    });
    call(KNOWN / 2);
    assert_eq!(peer.hang_up(), Some(0));
    let all = [current, aside].map(|path| std::fs::read_to_string(path).unwrap()).concat();
    assert_eq!(all.matches("\"outcome\":\"ok\"").count() as u64, calls, "{all}");
}

/// haft answers all calls that arrive in one write, also if no message or an invalid one follows.
#[test]
fn calls_that_come_together_are_all_answered() {
    let stage = Stage::new("");
    let mut peer = after_known_calls(&stage);
    for end in ["\n", "\n\n\n", "\nnothing\n", "\n{\"jsonrpc\":\"2.0\",\"method\":\"nothing\"}\n"] {
        let call = |id: u64| {
            let params = json!({"name": "guest__echo", "arguments": {"text": id.to_string()}});
            json!({"jsonrpc": "2.0", "id": 1000 + id, "method": "tools/call", "params": params}).to_string()
        };
        let calls: Vec<String> = (0..KNOWN).map(call).collect();
        peer.write(&format!("{}{end}", calls.join("\n")));
        for id in 0..KNOWN {
            assert_eq!(text(&peer.answer(1000 + id)["result"]), id.to_string(), "{end:?}");
        }
    }
    assert_eq!(peer.hang_up(), Some(0));
}
