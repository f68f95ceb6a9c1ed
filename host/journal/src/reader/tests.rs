use std::fs;
use std::io::Write;

use super::super::Outcome;
use super::super::file::MAX_LINE;
use super::*;

/// Returns a line of the call `id`, `seconds` after midnight.
fn at(id: &str, outcome: &str, seconds: u32) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let time = format!("2026-08-02T{hours:02}:{minutes:02}:{seconds:02}Z");
    format!("{{\"v\":1,\"id\":\"{id}\",\"time\":\"{time}\",\"outcome\":\"{outcome}\",\"tool\":\"t\"}}\n")
}

fn line(id: &str, outcome: &str) -> String {
    at(id, outcome, 0)
}

/// Returns the only line of a call.
fn merged(id: &str) -> String {
    line(id, "ok").replace("\"tool\"", "\"merged\":true,\"tool\"")
}

struct Place(tempfile::TempDir);

impl Place {
    /// Creates a journal of these files; the last is the current one.
    fn new(files: &[String]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let (current, aside) = files.split_last().unwrap();
        for (index, text) in aside.iter().enumerate() {
            fs::write(place.path(&format!("journal-{index:03}.jsonl")), text).unwrap();
        }
        fs::write(place.path(CURRENT), current).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn view(&self) -> View {
        View::open(self.0.path()).unwrap()
    }

    fn all(&self) -> (Vec<String>, usize) {
        let mut calls = self.view().calls(None, |_| true).unwrap();
        let records: Vec<_> = (&mut calls).map(Result::unwrap).collect();
        (told(&records), calls.broken())
    }

    fn last(&self, count: usize) -> (Vec<String>, bool) {
        let last = self.view().last(count, None, |_| true).unwrap();
        (told(&last.records), last.is_cut)
    }

    fn since(&self, time: &str) -> Vec<String> {
        let time = time.parse().unwrap();
        let calls = self.view().calls(Some(time), |_| true).unwrap().map(Result::unwrap);
        let forward = told(&calls.collect::<Vec<_>>());
        let last = self.view().last(usize::MAX, Some(time), |_| true).unwrap();
        assert_eq!(told(&last.records), forward, "both ways");
        forward
    }
}

fn told(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| format!("{} {}", record.id, record.outcome.name())).collect()
}

#[test]
fn every_call_comes_once_in_the_order_of_the_ends() {
    let place = Place::new(&[
        line("a", "started") + &line("b", "started") + &line("b", "ok"),
        line("c", "started") + "{\"id\":\"torn\n\nnot json\n" + &line("a", "timeout") + &merged("d"),
    ]);
    let all = ["b ok", "a timeout", "d ok", "c started"];
    assert_eq!(place.all(), (all.map(str::to_owned).to_vec(), 2));
    let last = place.view().last(100, None, |_| true).unwrap();
    assert_eq!((told(&last.records), last.broken, last.is_cut), (all.map(str::to_owned).to_vec(), 2, false));
}

/// Reading from the end reads no more than necessary; the first line of an ended call is not a separate call.
#[test]
fn the_last_calls_are_read_from_the_end() {
    let place = Place::new(&[
        line("a", "started") + &line("b", "started") + &line("b", "ok"),
        line("c", "started") + &line("a", "ok") + &merged("d"),
    ]);
    assert_eq!(place.last(1), (vec!["d ok".to_owned()], true));
    assert_eq!(place.last(2), (vec!["a ok".to_owned(), "d ok".to_owned()], true));
    assert_eq!(place.last(3).0, ["a ok", "d ok", "c started"]);
    assert_eq!(place.last(5), (["b ok", "a ok", "d ok", "c started"].map(str::to_owned).to_vec(), false));
    assert_eq!(place.last(0).0, [""; 0]);
    let wanted = place.view().last(1, None, |outline| outline.id == "b").unwrap();
    assert_eq!(told(&wanted.records), ["b ok"]);
}

#[test]
fn no_journal_is_an_empty_one() {
    let none = View::open(Path::new("/no/such/directory")).unwrap();
    assert!(none.calls(None, |_| true).unwrap().next().is_none());
    assert!(none.last(5, None, |_| true).unwrap().records.is_empty());
    assert!(none.calls(Some(Timestamp::UNIX_EPOCH), |_| true).unwrap().next().is_none());
    assert!(matches!(none.find("a").unwrap(), (Found::None, 0)));
}

#[test]
fn a_line_without_end_is_passed_over() {
    let place = Place::new(&[line("b", "ok") + &"x".repeat(3 * MAX_LINE) + "\n" + &line("a", "ok")]);
    assert_eq!(place.all().0, ["b ok", "a ok"]);
    assert_eq!(place.last(5).0, ["b ok", "a ok"]);
    let torn = Place::new(&[line("a", "ok") + "{\"id\":\"to"]);
    assert_eq!((torn.all(), torn.last(5).0), ((vec!["a ok".to_owned()], 1), vec!["a ok".to_owned()]));
}

/// A call each second of a day, each with two lines two seconds apart, in files of any length.
#[test]
fn what_was_called_since_a_time_is_found() {
    let second = |n: u32| at(&format!("{n:05}"), "started", n) + &at(&format!("{n:05}"), "ok", n);
    let hours =
        |hours: std::ops::Range<u32>| (hours.start * 3600..hours.end * 3600).map(second).collect::<String>();
    let place = Place::new(&[hours(0..1), hours(1..6), "broken\n".into(), hours(6..7), hours(7..12)]);
    for (time, count) in [
        ("2026-08-02T11:59:50Z", 10),
        ("2026-08-02T07:00:00Z", 5 * 3600),
        ("2026-08-02T06:59:59Z", 5 * 3600 + 1),
        ("2026-08-02T02:30:01Z", 9 * 3600 + 1799),
        ("2026-08-02T00:00:00Z", 12 * 3600),
        ("2026-08-01T00:00:00Z", 12 * 3600),
        ("2026-08-03T00:00:00Z", 0),
    ] {
        let found = place.since(time);
        assert_eq!(found.len(), count, "{time}");
        let first = found.first().map(|first| first.split(' ').next().unwrap().parse::<usize>().unwrap());
        assert_eq!(first, (count > 0).then_some(12 * 3600 - count), "{time}");
    }
    // Older files are not read, regardless of their content.
    fs::write(place.path("journal-001.jsonl"), "x").unwrap();
    assert_eq!(place.since("2026-08-02T11:59:50Z").len(), 10);
}

/// A call is found by its id or a prefix, with its last line.
#[test]
fn a_call_is_found_by_its_id() {
    let place = Place::new(&[
        line("ab12", "started") + &line("ab12", "ok") + &merged("ab9f"),
        line("ab", "started") + "{\"outcome\":\"error\",\"id\":\"other\"}\n" + &line("c0", "started"),
    ]);
    let find = |id: &str| match place.view().find(id).unwrap().0 {
        Found::One(record) => told(&[*record]).concat(),
        other => format!("{other:?}"),
    };
    assert_eq!(find("ab12"), "ab12 ok");
    assert_eq!(find("ab1"), "ab12 ok");
    assert_eq!(find("ab9"), "ab9f ok");
    assert_eq!(find("ab"), "ab started", "an id that is another one's beginning");
    assert_eq!(find("a"), "Several");
    assert_eq!(find("oth"), "other error", "a line of another form");
    assert_eq!((find("c"), find("d")), ("c0 started".into(), "None".into()));
}

/// Unreadable lines are counted, whether they resemble another call's line or not.
#[test]
fn lines_that_are_none_are_counted_where_a_call_is_looked_for() {
    let torn = line("other", "ok").replace("}\n", "\n");
    let place = Place::new(&[line("a", "ok") + &torn + "\nnot json\n" + &line("b", "ok")]);
    assert_eq!(["a", "b", "c"].map(|id| place.view().find(id).unwrap().1), [2, 0, 2]);
}

/// The calls of an agent are between the two lines of the call that it answers.
#[test]
fn the_calls_of_an_agent_are_found() {
    let of = |id: &str, outcome: &str| line(id, outcome).replace("\"tool\"", "\"parent\":\"p\",\"tool\"");
    let place = Place::new(&[
        line("p", "started") + &of("a", "started") + &of("a", "ok") + &line("z", "ok"),
        of("b", "started") + &of("c", "started") + &of("c", "error") + &line("p", "ok"),
    ]);
    let (Found::One(parent), 0) = place.view().find("p").unwrap() else { panic!("it is there") };
    let children = place.view().children(&parent, 10).unwrap();
    assert_eq!(told(&children), ["a ok", "c error", "b started"]);
    assert_eq!(place.view().children(&children[0], 10).unwrap(), []);
}

/// A journal can be followed from the time of opening, also into the next file.
#[test]
fn a_journal_can_be_followed() {
    let place = Place::new(&[line("old", "ok")]);
    let current = place.path(CURRENT);
    let view = place.view();
    let mut file = File::options().append(true).open(&current).unwrap();
    let (start, end) = (line("a", "started"), line("a", "ok"));
    let (first, rest) = end.split_at(10);
    file.write_all(format!("{start}{first}").as_bytes()).unwrap();
    // Lines written after opening are neither repeated nor lost.
    assert_eq!(told(&view.last(5, None, |_| true).unwrap().records), ["old ok"]);
    let mut followed = view.follow().unwrap();
    let mut ids = || -> Vec<String> { followed.by_ref().map(|record| record.unwrap().id).collect() };
    assert!(ids().is_empty());
    file.write_all(rest.as_bytes()).unwrap();
    assert_eq!(ids(), ["a"]);
    file.write_all(line("b", "ok").as_bytes()).unwrap();
    fs::rename(&current, place.path("journal-1.jsonl")).unwrap();
    fs::write(&current, line("c", "ok")).unwrap();
    assert_eq!(ids(), ["b", "c"]);
    assert!(ids().is_empty());
    // Several files may be filled between two reads.
    fs::rename(&current, place.path("journal-2.jsonl")).unwrap();
    fs::write(place.path("journal-3.jsonl"), line("d", "ok")).unwrap();
    fs::write(place.path("journal-4.jsonl"), line("e", "started") + &line("e", "ok")).unwrap();
    fs::write(&current, line("f", "ok")).unwrap();
    assert_eq!(ids(), ["d", "e", "f"]);
    // The open file may have been removed.
    fs::remove_file(&current).unwrap();
    fs::write(place.path("journal-5.jsonl"), line("g", "ok")).unwrap();
    fs::write(&current, line("h", "ok")).unwrap();
    assert_eq!(ids(), ["g", "h"]);
    assert!(ids().is_empty());
}

/// Lines of an earlier version, in which every call has two.
#[test]
fn outcomes_are_read_with_the_rest() {
    let place = Place::new(&[line("a", "started") + &line("a", "vanished")]);
    let last = place.view().last(1, None, |outline| outline.outcome == Outcome::Other).unwrap();
    assert_eq!(last.records.len(), 1);
}

/// A time at the end of the range, a last line of a call during which the machine was suspended, and a line without
/// a time do not hide earlier lines.
#[test]
fn what_says_nothing_of_its_time_hides_no_call() {
    let late = line("late", "started").replace("2026-08-02T00:00:00Z", "9999-12-30T21:59:30Z");
    let slept = at("slept", "ok", 10).replace("\"tool\"", "\"duration_ms\":5.0,\"tool\"");
    let text = [
        at("slept", "started", 10),
        at("one", "started", 40_000),
        at("one", "ok", 40_000),
        "{\"id\":\"timeless\",\"outcome\":\"ok\"}\n".to_owned(),
        slept,
        late,
    ];
    let place = Place::new(&[text.concat()]);
    assert_eq!(place.since("2026-08-02T11:00:00Z"), ["one ok", "late started"]);
}

/// Several processes that read one after the other from bookmarks read every line once, also across rotations.
#[test]
fn whoever_goes_on_at_a_bookmark_misses_nothing() {
    let place = tempfile::tempdir().unwrap();
    let line = |n: usize| format!("{{\"id\":\"{n:012}\",\"outcome\":\"ok\",\"tool\":\"t\"}}\n");
    let write = |name: &str, lines: std::ops::Range<usize>| {
        let text: String = lines.map(line).collect();
        let mut file =
            fs::OpenOptions::new().append(true).create(true).open(place.path().join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let (mut bookmark, mut seen) = (None, Vec::new());
    let mut read = |most: usize| {
        let mut followed = View::open(place.path()).unwrap().follow_after(bookmark).unwrap();
        for _ in 0..most {
            let Some(line) = followed.next_line().unwrap() else { break };
            seen.push(String::from_utf8(line.bytes().to_vec()).unwrap());
        }
        bookmark = followed.bookmark().unwrap();
    };
    read(10);
    write("journal.jsonl", 0..5);
    read(2);
    write("journal.jsonl", 5..7);
    read(3);
    fs::rename(
        place.path().join("journal.jsonl"),
        place.path().join("journal-20260101T000000-1-512MiB.jsonl"),
    )
    .unwrap();
    write("journal.jsonl", 7..9);
    read(1);
    read(10);
    read(10);
    write("journal.jsonl", 9..10);
    read(10);
    assert_eq!(seen, (0..10).map(line).collect::<Vec<_>>());
}
