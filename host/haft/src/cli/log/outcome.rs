//! How a call ended, as `haft log` says it.

use haft_core::journal::{Outcome, Record};

/// Whether haft ended before the call did.
pub(super) fn is_unfinished(record: &Record) -> bool {
    let process = i32::try_from(record.pid).ok().and_then(rustix::process::Pid::from_raw);
    let runs = || process.is_some_and(|process| rustix::process::test_kill_process(process).is_ok());
    record.outcome == Outcome::Started && !runs()
}

/// How a call ended, in a word.
pub(super) fn outcome(record: &Record) -> &'static str {
    match record.outcome {
        Outcome::Started if is_unfinished(record) => "unfinished",
        Outcome::Started => "running",
        outcome => outcome.name(),
    }
}
