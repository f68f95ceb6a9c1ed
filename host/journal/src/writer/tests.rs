use std::fs;
use std::time::Instant;

use haft_core::call::ToolCall;

use super::super::file::CURRENT;
use super::super::{Outcome, Program};
use super::*;

/// A group waits this long only if it is never written.
const HANG: Duration = Duration::from_mins(5);

/// Writes the end of a call.
fn end(writer: &Writer, begun: Arc<Record>) {
    let merged = writer.forget(&begun.id);
    writer.end(&Record { outcome: Outcome::Ok, merged, ..Arc::unwrap_or_clone(begun) });
}

struct Place {
    directory: tempfile::TempDir,
    writer: Writer,
}

impl Place {
    /// Creates a journal that gathers lines: the first line is written, and the thread is started.
    fn gathering() -> Self {
        let place = Self::new();
        place.writer.gather();
        place.writer.begin(&record("first"), true);
        place
    }

    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let writer = Writer::new(directory.path(), KeptJournal::default());
        Self { directory, writer }
    }

    /// Returns the calls in the file with their outcomes: `a started`.
    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.directory.path().join(CURRENT)).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'), "{text}");
        let records = text.lines().map(|line| serde_json::from_str::<Record>(line).unwrap());
        let told = |record: Record| {
            let merged = if record.merged { " merged" } else { "" };
            format!("{} {}{merged}", record.call, record.outcome.name())
        };
        records.map(told).collect()
    }

    fn wait_for(&self, lines: &[&str]) {
        let end = Instant::now() + HANG;
        while self.lines() != lines {
            assert!(!end.saturating_duration_since(Instant::now()).is_zero(), "{:?}", self.lines());
            std::thread::yield_now();
        }
    }

    fn end(&self, begun: Arc<Record>) {
        end(&self.writer, begun);
    }

    /// Blocks the thread, which cannot write before the drop of the guard.
    fn held(&self) -> std::sync::MutexGuard<'_, File> {
        self.writer.0.file.lock()
    }
}

fn record(call: &str) -> Arc<Record> {
    let call = ToolCall { id: call.into(), tool: "t".into(), arguments: serde_json::Value::Null };
    Arc::new(Record::begun(Program::default(), &call))
}

/// Without gathering, every line is written immediately, and there is no thread.
#[test]
fn without_groups_every_line_is_written_at_once() {
    let place = Place::new();
    let begun = record("a");
    place.writer.begin(&begun, true);
    assert_eq!(place.lines(), ["a started"]);
    place.end(begun);
    assert_eq!(place.lines(), ["a started", "a ok"]);
    assert!(place.writer.0.thread.get().is_none());
}

/// The first line of a call that may have effects is in the file before the call runs, with earlier lines.
#[test]
fn a_line_that_may_not_wait_is_on_file_at_once() {
    let place = Place::gathering();
    assert_eq!(place.lines(), ["first started"], "with the thread");
    for call in ["a", "b", "c"] {
        let (waiting, begun) = (record("waits"), record(call));
        place.writer.begin(&waiting, true);
        place.writer.begin(&begun, false);
        assert_eq!(place.lines().last().unwrap(), &format!("{call} started"));
        assert_eq!(place.lines().iter().filter(|line| *line == "waits started").count(), 1);
        place.end(waiting);
        place.writer.0.write(|_| Ok(()));
        fs::write(place.directory.path().join(CURRENT), "").unwrap();
    }
}

/// Waiting lines are written without any other event.
#[test]
fn lines_that_wait_are_written_soon() {
    let place = Place::gathering();
    let begun = record("a");
    place.writer.begin(&begun, true);
    place.wait_for(&["first started", "a started"]);
    place.end(begun);
    place.wait_for(&["first started", "a started", "a ok"]);
}

/// A call that ends before its first line is written has one line, marked as such.
#[test]
fn a_call_that_is_over_has_one_line() {
    let place = Place::gathering();
    let held = place.held();
    let (a, b) = (record("a"), record("b"));
    place.writer.begin(&a, true);
    place.writer.begin(&b, true);
    place.end(a);
    drop(held);
    place.wait_for(&["first started", "a ok merged", "b started"]);
    place.end(b);
    place.wait_for(&["first started", "a ok merged", "b started", "b ok"]);
}

/// The number of waiting lines is bounded: beyond it, the caller writes the line.
#[test]
fn what_waits_is_bounded() {
    let place = Place::gathering();
    let held = place.held();
    let all: Vec<_> = (0..MAX_BEGUN).map(|n| record(&n.to_string())).collect();
    for begun in &all {
        place.writer.begin(begun, true);
    }
    let gathered = |begun: &Arc<Record>| place.writer.0.put(|gathered| gathered.begin(begun));
    assert!(!gathered(&record("more")), "the calls");
    drop(held);
    place.writer.begin(&record("more"), true);
    place.writer.0.write(|_| Ok(()));
    assert_eq!(place.lines().len(), MAX_BEGUN + 2);

    let held = place.held();
    let long = Record { error: Some("x".repeat(10_000)), ..(*record("long")).clone() };
    let taken = (0..100).take_while(|_| place.writer.0.put(|gathered| gathered.end(&long))).count();
    assert!((20..=26).contains(&taken), "the bytes: {taken}");
    drop(held);
}

/// Nothing is lost at the end of the journal or of the process.
#[test]
fn what_waits_is_written_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let read = || fs::read_to_string(directory.path().join(CURRENT)).unwrap();
    let journal = Arc::new(Writer::new(directory.path(), KeptJournal::default()));
    journal.gather();
    for call in ["a", "b"] {
        let begun = record(call);
        journal.begin(&begun, true);
        end(&journal, begun);
    }
    let clone = journal.clone();
    drop(journal);
    clone.begin(&record("c"), true);
    drop(clone);
    assert!(
        ["a", "b", "c"].iter().all(|call| read().contains(&format!("\"call\":\"{call}\""))),
        "{}",
        read()
    );

    let place = Place::gathering();
    let held = place.held();
    place.writer.begin(&record("waits"), true);
    drop(held);
    place.writer.0.stop();
    assert_eq!(place.lines(), ["first started", "waits started"]);
    // Later lines are written without the thread.
    place.writer.gather();
    place.writer.begin(&record("late"), true);
    assert_eq!(place.lines().last().unwrap(), "late started");
}

/// Lines stay complete with several journals on one file.
#[test]
fn groups_of_several_writers_do_not_mix() {
    const CALLS: usize = 500;
    let place = Place::gathering();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let writer = Writer::new(place.directory.path(), KeptJournal::default());
                writer.gather();
                for n in 0..CALLS {
                    let begun = record("x");
                    writer.begin(&begun, !n.is_multiple_of(7));
                    end(&writer, begun);
                }
            });
        }
    });
    let text = fs::read_to_string(place.directory.path().join(CURRENT)).unwrap();
    // A file that is opened during another process's write looks incomplete.
    let lines = text.lines().filter(|line| !line.is_empty());
    let records: Vec<Record> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let ended = records.iter().filter(|record| record.outcome == Outcome::Ok);
    assert_eq!(ended.count(), 4 * CALLS);
    let begun = records.iter().filter(|record| record.outcome == Outcome::Started || record.merged);
    assert_eq!(begun.count(), 4 * CALLS + 1, "each has a first line, or needs none");
}
