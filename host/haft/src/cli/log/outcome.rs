//! How a call ended, as `haft log` says it.

use haft_journal::{Outcome, Record};

/// Whether haft ended before the call did, which the process `pid` made.
pub(super) fn is_unfinished(outcome: Outcome, pid: u32) -> bool {
    let process = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let runs = || process.is_some_and(|process| rustix::process::test_kill_process(process).is_ok());
    outcome == Outcome::Started && !runs()
}

/// How a call ended, in a word.
pub(super) fn outcome(record: &Record) -> &'static str {
    match record.outcome {
        Outcome::Started if is_unfinished(record.outcome, record.pid) => "unfinished",
        Outcome::Started => "running",
        outcome => outcome.name(),
    }
}
