//! The dashboard with many calls: it shows a part of them and their number, and stores only the displayed part.

use std::fs::{self, OpenOptions};
use std::io::Write;

use serde_json::json;

use super::browser::Browser;
use crate::serve::Stage;

/// Journal lines of another haft: ended calls, of which every thousandth was refused.
fn lines(from: usize, count: usize) -> Vec<u8> {
    let line = |n: usize| {
        let outcome = if n % 1000 == 999 { "refused" } else { "ok" };
        let id = format!("{n:012x}");
        let time = "2026-01-01T00:00:00.000Z";
        json!({
            "v": 1, "id": id, "time": time, "outcome": outcome, "merged": true, "tool": "busy",
            "arguments": {"n": n, "text": "x".repeat(200)}, "duration_ms": 0.5, "call": "c", "pid": 1, "haft": "0"
        })
    };
    (from..from + count).flat_map(|n| (line(n).to_string() + "\n").into_bytes()).collect()
}

fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Of 100,000 calls the dashboard counts all, sends few and every refusal, and its memory grows by less than 64 MiB.
#[test]
fn many_calls_are_sampled_and_counted() {
    let stage = Stage::new("");
    let journal = stage.home().join(".local/state/haft/journal");
    fs::create_dir_all(&journal).unwrap();
    let mut file = OpenOptions::new().create(true).append(true).open(journal.join("journal.jsonl")).unwrap();
    let browser = Browser::open(&stage);
    let stream = browser.stream();
    // haft follows the journal from here on.
    file.write_all(&lines(0, 1)).unwrap();
    stream.row("busy", "ok");
    let before = resident(browser.child.id());
    let mut batches = Vec::new();
    for part in 0..100 {
        file.write_all(&lines(1 + part * 1000, 1000)).unwrap();
        batches.extend(stream.batches(1000));
    }
    let sum = |name: &str| batches.iter().map(|batch| batch[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("ended"), 100_000);
    let rows: Vec<_> = batches.iter().flat_map(|batch| batch["rows"].as_array().unwrap()).collect();
    assert_eq!(rows.len() as u64, sum("shown"));
    assert!((100..2000).contains(&rows.len()), "{} rows", rows.len());
    assert_eq!(rows.iter().filter(|row| row["outcome"] == "refused").count(), 100, "each refusal");
    let calls = browser.json("/api/calls");
    assert_eq!((calls["rows"].as_array().unwrap().len(), &calls["is_cut"]), (500, &json!(true)));
    if cfg!(target_os = "linux") {
        let grown = resident(browser.child.id()).saturating_sub(before);
        assert!(grown < 64 << 20, "{grown} bytes");
    }
}
