//! Kills haft while plugins write: every acknowledged write is complete, and no other is half written.
//! `HAFT_TEST_KILLS` is the number of kills.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::json;

use super::{home, says};
use crate::cli::Home;
use crate::common::wait::until;

/// Default number of kills.
const USUAL_KILLS: u64 = 20;

/// The processes that write at the same time in one store.
const WRITERS: [&str; 2] = ["a", "b"];

/// Maximum number of writes of a writer before the other writer is killed.
const MOST: u64 = 20;

/// The records of a writer, each made after its write was acknowledged.
struct Notes {
    /// The number at each start of the writer.
    starts: Vec<u64>,
    /// The last acknowledged number.
    last: u64,
}

/// Reads the records, and asserts that every start found all acknowledged writes.
fn notes(path: &Path) -> Notes {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut notes = Notes { starts: Vec::new(), last: 0 };
    for line in text.lines() {
        if let Some(start) = line.strip_prefix("start ") {
            let start = start.parse().unwrap();
            assert!(start >= notes.last, "acknowledged {} and found {start}", notes.last);
            // The last write may have been made without an acknowledgement.
            assert!(start <= notes.last + 1, "acknowledged {} and found {start}", notes.last);
            notes.starts.push(start);
            notes.last = start;
        } else {
            let number: u64 = line.parse().unwrap();
            assert_eq!(number, notes.last + 1);
            notes.last = number;
        }
    }
    notes
}

fn start(home: &Home, name: &str) -> Child {
    let path = home.work().join(format!("out/{name}"));
    let before = notes(&path).starts.len();
    let arguments = json!({ "name": name, "notes": path }).to_string();
    let mut command = home.command(&["call", "keeper__churn", &arguments]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut has_ended = false;
    until("the writer starts or ends", || {
        has_ended = child.try_wait().unwrap().is_some();
        has_ended || notes(&path).starts.len() > before
    });
    if has_ended {
        let output = child.wait_with_output().unwrap();
        panic!("{name} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    child
}

/// Two processes write in the store of one plugin, and each kill loses no acknowledged write.
#[test]
fn what_was_acknowledged_survives_a_kill() {
    let kills =
        std::env::var("HAFT_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(USUAL_KILLS);
    let home = home("grant = { state = \"1MiB\", write = [\"out\"] }");
    fs::create_dir(home.work().join("out")).unwrap();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut other: Option<Child> = None;
    for kill in 0..kills {
        let name = WRITERS[usize::try_from(kill).unwrap() % WRITERS.len()];
        let this = start(&home, name);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let path = home.work().join(format!("out/{name}"));
        let written = notes(&path).last + (random >> 33) % MOST;
        until("it writes", || notes(&path).last >= written);
        if let Some(mut other) = other.replace(this) {
            assert!(other.try_wait().unwrap().is_none(), "it ended by itself");
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
    if let Some(child) = &mut other {
        drop((child.kill(), child.wait()));
    }
    let mut all = 0;
    for name in WRITERS {
        let Notes { starts, last } = notes(&home.work().join("out").join(name));
        let found: u64 = says(&home, "whole", &json!({ "name": name })).parse().unwrap();
        assert!((last..=last + 1).contains(&found), "acknowledged {last} and found {found}");
        assert!(!starts.is_empty());
        all += last;
    }
    eprintln!("killed {kills} times, {all} writes acknowledged");
}
