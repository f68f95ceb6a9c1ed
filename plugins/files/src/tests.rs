//! Tests of the three tools as a model calls them, on real files.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use haft_plugin::{Context, Error, Tool, testing};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::page::{self, Position};
use crate::{Edit, Read, Write};

/// A workspace that goes away with the test.
struct Place {
    folder: TempDir,
    context: Context,
}

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let context = Context::for_tests(folder.path(), folder.path());
        Self { folder, context }
    }

    fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        let place = Self::new();
        fs::write(place.path(name), content).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better in the many calls")]
    fn call<T: Tool>(&self, arguments: Value) -> Result<String, Error> {
        Ok(testing::call::<T>(&arguments, &self.context)?.text())
    }

    fn error<T: Tool>(&self, arguments: Value) -> String {
        self.call::<T>(arguments).unwrap_err().message().to_owned()
    }

    fn read(&self, arguments: &Value) -> String {
        testing::call::<Read>(arguments, &self.context).unwrap().text()
    }
}

/// TE19.
#[test]
fn read_gives_the_exact_content() {
    let text = "one\r\n\ttwo\n\n\u{feff}thrée 🦀 without a last newline";
    let place = Place::with("a.txt", text);
    assert_eq!(place.read(&json!({ "file_path": "a.txt" })), text);
    assert_eq!(place.read(&json!({ "file_path": "~/a.txt" })), text);
    assert_eq!(place.read(&json!({ "file_path": place.path("a.txt") })), text);
    assert_eq!(Place::with("empty", "").read(&json!({ "file_path": "empty" })), "");
}

/// TE19.
#[test]
fn offset_and_limit_are_lines() {
    let place = Place::with("a", "1\n2\n3\n4");
    assert_eq!(place.read(&json!({ "file_path": "a", "offset": 2, "limit": 2 })), "2\n3\n");
    assert_eq!(place.read(&json!({ "file_path": "a", "offset": 4 })), "4");
    assert_eq!(place.read(&json!({ "file_path": "a", "limit": 1 })), "1\n");
    assert_eq!(place.read(&json!({ "file_path": "a", "offset": 1, "limit": 99 })), "1\n2\n3\n4");
    assert_eq!(place.read(&json!({ "file_path": "a", "limit": u64::MAX, "offset": 3 })), "3\n4");
}

/// TE19.
#[test]
fn past_the_end_is_an_error_that_says_where_the_end_is() {
    let place = Place::with("a", "one\ntwo\n");
    let message = place.error::<Read>(json!({ "file_path": "a", "offset": 3 }));
    assert!(message.contains("`offset` 3 is past the end: the last line of `"), "{message}");
    assert!(message.ends_with("a` is 2"), "{message}");
    for column in [5, 99] {
        let message = place.error::<Read>(json!({ "file_path": "a", "offset": 1, "column": column }));
        assert!(message.contains(&format!("`column` {column} is past the end of line 1")), "{message}");
    }
    let message = place.error::<Read>(json!({ "file_path": "a", "offset": 0 }));
    assert!(message.starts_with("`offset`: invalid value: integer `0`"), "{message}");
}

/// TE19.
#[test]
fn more_than_50000_characters_are_truncated() {
    let place = Place::with("a", "x".repeat(50_000));
    assert_eq!(place.read(&json!({ "file_path": "a" })).len(), 50_000);
    let place = Place::with("a", "x".repeat(50_001));
    let expected = "x".repeat(50_000)
        + "\n... (output truncated: 50001 total chars, showing first 50000); to read on: offset 1, column 50001";
    assert_eq!(place.read(&json!({ "file_path": "a" })), expected);
}

/// TE19: of a file without end no more is read than a page and what is near it.
#[test]
fn the_first_page_of_a_file_is_no_matter_of_its_length() {
    struct Endless(u64, &'static [u8]);
    impl std::io::Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0 += buffer.len() as u64;
            assert!(self.0 < 8 << 20, "reads on and on");
            buffer.iter_mut().zip(self.1.iter().cycle()).for_each(|(byte, other)| *byte = *other);
            Ok(buffer.len())
        }
    }
    let (from, later) = (Position { line: 1, column: 1 }, Instant::now() + Duration::from_mins(10));
    for line in ["x", "a line\n"] {
        let page = page::read(Endless(0, line.as_bytes()), from, None, 50_000, later).unwrap();
        assert_eq!((page.shown, page.uncounted, page.gave_up), (50_000, true, false));
        assert!(page.total > 1 << 20, "{}", page.total);
    }
    let far = Position { line: 1 << 40, column: 1 };
    let page = page::read(Endless(0, b"a line\n"), far, None, 50_000, Instant::now()).unwrap();
    assert!(page.gave_up);
}

/// TE19: the notice of a file that is too long to be counted.
#[test]
fn a_very_long_file_is_counted_as_far_as_it_is_near() {
    let place = Place::with("a", "line\n".repeat(400_000));
    let answer = place.read(&json!({ "file_path": "a" }));
    let (page, notice) = answer.split_at(50_000);
    assert!(page.lines().all(|line| line == "line"));
    let (total, rest) = notice.split_once(" total chars").unwrap();
    let total: u64 = total.strip_prefix("\n... (output truncated: more than ").unwrap().parse().unwrap();
    assert!((1_000_000..2_000_000).contains(&total), "{total}");
    assert_eq!(rest, ", showing first 50000 of a file of 2000000 bytes); to read on: offset 10001, column 1");
    assert_eq!(place.read(&json!({ "file_path": "a", "offset": 400_000 })), "line\n");
    let message = place.error::<Read>(json!({ "file_path": "a", "offset": 400_001 }));
    assert!(message.ends_with("is 400000"), "{message}");
}

/// TE22: only what is replaced and a piece of the file are held, whatever its length.
#[test]
fn a_large_file_is_edited() {
    let lines = "a line of a file\n".repeat(2_000_000);
    let place = Place::with("a", format!("{lines}the end\n"));
    place.call::<Edit>(edit("a", "the end", "its end")).unwrap();
    assert!(place.content("a") == format!("{lines}its end\n"));
}

/// TE19, TE24:
/// Page after page, what `read` shows is the file, whether its lines are short or there is one only.
#[test]
fn the_pages_make_up_the_file() {
    let lines = (0..9000).fold(String::new(), |text, line| text + &line.to_string() + ": Привет, 🦀 wörld\n");
    for text in
        [lines, "Ёж🦀é".repeat(40_000), "\n".repeat(120_000), "й".repeat(50_000) + "\n" + &"й".repeat(50_001)]
    {
        let place = Place::with("a", &text);
        let mut pages = String::new();
        let mut next = json!({ "file_path": "a" });
        while let Some((page, position)) = split_notice(&place.read(&next)) {
            assert_eq!(page.chars().count(), 50_000);
            pages.push_str(&page);
            next = json!({ "file_path": "a", "offset": position.0, "column": position.1 });
        }
        pages.push_str(&place.read(&next));
        assert_eq!(pages.len(), text.len());
        assert!(pages == text);
    }
}

fn split_notice(answer: &str) -> Option<(String, (u64, u64))> {
    let (page, notice) = answer.rsplit_once("\n... (output truncated: ")?;
    let (_, position) = notice.split_once("to read on: offset ")?;
    let (line, column) = position.split_once(", column ")?;
    Some((page.to_owned(), (line.parse().unwrap(), column.parse().unwrap())))
}

/// TE24: every alignment of wide characters to the limit and to the chunks that are read.
#[test]
fn truncation_never_splits_a_character() {
    for shift in 0..8 {
        for wide in ["Я", "🦀", "€"] {
            let text = "x".repeat(shift) + &wide.repeat(60_000);
            let answer = Place::with("a", &text).read(&json!({ "file_path": "a" }));
            let expected: String = text.chars().take(50_000).collect();
            let notice =
                format!("\n... (output truncated: {} total chars, showing first 50000)", 60_000 + shift);
            assert!(answer.starts_with(&(expected + &notice)));
        }
    }
}

/// TE20.
#[test]
fn a_missing_file_is_named() {
    let place = Place::new();
    let path = place.path("no/such.txt");
    let expected = format!("cannot read `{}`: there is no such file", path.display());
    assert_eq!(place.error::<Read>(json!({ "file_path": "no/such.txt" })), expected);
}

/// C15: `read` and `edit` of a file with a slash behind it, which `write` has in its own test.
#[test]
fn a_file_is_no_directory() {
    let place = Place::with("a.txt", "one");
    for path in ["a.txt/", "a.txt/.", "a.txt//"] {
        let read = place.error::<Read>(json!({ "file_path": path }));
        let edited = place.error::<Edit>(edit(path, "one", "two"));
        for message in [read, edited] {
            assert!(message.ends_with("a part of the path is a file and no directory"), "{message}");
        }
    }
    assert_eq!(place.content("a.txt"), "one");
}

/// TE20.
#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let place = Place::new();
    let socket = place.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for (path, why) in [
        (".", "it is a directory"),
        ("socket", "it is not a regular file"),
        ("/dev/zero", "it is not a regular file"),
    ] {
        let message = place.error::<Read>(json!({ "file_path": path }));
        assert!(message.ends_with(why), "{message}");
    }
    for tool in [
        place.error::<Write>(json!({ "file_path": "socket", "content": "" })),
        place.error::<Edit>(edit("/dev/zero", "a", "b")),
    ] {
        assert!(tool.ends_with("it is not a regular file"), "{tool}");
    }
}

/// TE20.
#[test]
fn invalid_utf8_is_shown_with_a_notice() {
    let place = Place::with("a", b"caf\xe9 \xf0\x9f\xa6 \xff\xfe end\xe2\x82");
    let expected = "caf\u{fffd} \u{fffd} \u{fffd}\u{fffd} end\u{fffd}\n... (not valid UTF-8: 5 invalid sequences are shown as \u{fffd})";
    assert_eq!(place.read(&json!({ "file_path": "a" })), expected);
}

/// TE20.
#[test]
fn a_binary_file_is_refused_with_its_size() {
    let message = Place::with("a", b"\x7fELF\0\0\0").error::<Read>(json!({ "file_path": "a" }));
    assert!(message.ends_with("it is a binary file of 7 bytes, and no text"), "{message}");
    let late = [b"x".repeat(9000), vec![b'\n', 0]].concat();
    let place = Place::with("late", late);
    assert!(place.error::<Read>(json!({ "file_path": "late" })).contains("binary file of 9002 bytes"));
    assert_eq!(place.read(&json!({ "file_path": "late", "limit": 1 })).len(), 9001);
}

/// TE21.
#[test]
fn write_creates_parents_and_overwrites() {
    let place = Place::new();
    let written =
        |content: &str| place.call::<Write>(json!({ "file_path": "a/b/c.txt", "content": content }));
    assert_eq!(written("héllo").unwrap(), "Wrote 6 bytes to a/b/c.txt");
    assert_eq!(place.content("a/b/c.txt"), "héllo");
    assert_eq!(written("").unwrap(), "Wrote 0 bytes to a/b/c.txt");
    assert_eq!(place.content("a/b/c.txt"), "");
}

/// TE21.
#[test]
fn missing_arguments_are_errors() {
    let place = Place::new();
    let missing = place.call::<Write>(json!({ "file_path": "a" }));
    assert_eq!(missing, Err(Error::invalid("missing field `content`")));
    assert!(place.names().is_empty());
    assert_eq!(place.error::<Write>(json!({ "file_path": "", "content": "" })), "`file_path` is empty");
}

/// TE21.
#[test]
fn write_refuses_what_is_no_file() {
    let place = Place::with("file", "x");
    for (path, why) in [
        (".", "it is a directory"),
        ("new/", "it names a directory"),
        ("new/.", "it names a directory"),
        ("file/", "a part of the path is a file and no directory"),
        ("file/.", "a part of the path is a file and no directory"),
        ("file/below", "a part of the path is a file and no directory"),
        ("file/far/below", "a part of the path is a file and no directory"),
    ] {
        let message = place.error::<Write>(json!({ "file_path": path, "content": "" }));
        assert!(message.ends_with(why), "{path}: {message}");
    }
    assert_eq!(place.names(), ["file"]);
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "file_path": path, "old_string": old, "new_string": new })
}

/// TE22.
#[test]
fn edit_replaces_and_reports_the_count() {
    let place = Place::with("a", "one two two");
    assert_eq!(place.call::<Edit>(edit("a", "one", "1")).unwrap(), "Edited a (1 occurrence replaced)");
    let all = json!({ "file_path": "a", "old_string": "two", "new_string": "2", "replace_all": true });
    assert_eq!(place.call::<Edit>(all).unwrap(), "Edited a (2 occurrences replaced)");
    assert_eq!(place.content("a"), "1 2 2");
}

/// TE22.
#[test]
fn a_failed_edit_changes_nothing() {
    let text = "\tone\ntwo\ntwo\n";
    let place = Place::with("a", text);
    let errors = [
        ("three", "x", "not found in `"),
        ("  one", "x", "Line 1 begins alike, with other white space"),
        ("two", "x", "occurs 2 times in `"),
        ("two", "x", "at lines 2, 3; the file is unchanged"),
        ("", "x", "`old_string` is empty"),
        ("one", "one", "are the same"),
    ];
    for (old, new, expected) in errors {
        let message = place.error::<Edit>(edit("a", old, new));
        assert!(message.contains(expected), "{message}");
        assert_eq!(place.content("a"), text);
    }
    assert_eq!(place.names(), ["a"]);
}

/// TE22.
#[test]
fn edit_needs_a_text_file_that_exists() {
    let place = Place::with("latin", b"caf\xe9");
    let message = place.error::<Edit>(edit("latin", "c", "d"));
    assert!(message.ends_with("it is not UTF-8 text (byte 3 on), and only text can be edited"), "{message}");
    assert!(place.error::<Edit>(edit("none", "c", "d")).ends_with("there is no such file"));
    fs::File::create(place.path("huge")).unwrap().set_len((255 << 20) + 1).unwrap();
    let message = place.error::<Edit>(edit("huge", "c", "d"));
    assert!(
        message.ends_with("it has 267386881 bytes, and only files of up to 267386880 can be edited"),
        "{message}"
    );
}

/// TE23: whoever had the old file open still reads all of it, and nothing is left behind.
#[test]
fn the_old_file_is_replaced_whole() {
    let place = Place::with("a", "the old content");
    let old = fs::File::open(place.path("a")).unwrap();
    place.call::<Write>(json!({ "file_path": "a", "content": "new" })).unwrap();
    assert_eq!(std::io::read_to_string(old).unwrap(), "the old content");
    place.call::<Edit>(edit("a", "new", "newer")).unwrap();
    assert_eq!((place.content("a").as_str(), place.names()), ("newer", vec!["a".to_owned()]));
}

/// TE23.
#[test]
fn a_failed_write_leaves_nothing_behind() {
    let place = Place::new();
    fs::create_dir(place.path("a")).unwrap();
    let error = crate::replace::replace(&place.context, (&place.path("a"), false), |_| Ok(()), || Ok(()))
        .unwrap_err();
    assert!(error.message().starts_with("cannot write `"), "{error:?}");
    assert_eq!(place.names(), ["a"]);
}

/// TE23: what a killed call left of this very file is removed by the next one, once it is old; what is not is left alone.
#[test]
fn what_a_killed_call_left_is_removed() {
    let place = Place::with("a", "old");
    let mut temporary = None;
    let note = |_: &mut crate::replace::Content<'_>| {
        temporary = place.names().into_iter().find(|name| name.starts_with(".haft-private-"));
        Ok(())
    };
    crate::replace::replace(&place.context, (&place.path("a"), false), note, || Ok(())).unwrap();
    let temporary = temporary.unwrap();
    for (name, minutes, is_left) in
        [(&*temporary, 120, false), (&*temporary, 1, true), (".haft-private-0", 120, true)]
    {
        let file = fs::File::create(place.path(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_mins(minutes)).unwrap();
        place.call::<Write>(json!({ "file_path": "a", "content": "new" })).unwrap();
        assert_eq!((place.content("a").as_str(), place.path(name).exists()), ("new", is_left), "{name}");
        let _ = fs::remove_file(place.path(name));
    }
    assert_eq!(place.names(), ["a"]);
}

/// TE23: of several edits of one file at once none is lost: each reads what the one before has written.
#[test]
fn edits_of_one_file_at_once_are_all_made() {
    let words = |letter: char| (0..8).map(|number| format!("{letter}{number} ")).collect::<String>();
    let place = Place::with("a", words('o'));
    std::thread::scope(|scope| {
        for number in 0..8 {
            let place = &place;
            scope.spawn(move || {
                let (old, new) = (format!("o{number} "), format!("n{number} "));
                let edit = json!({ "file_path": "a", "old_string": old, "new_string": new });
                place.call::<Edit>(edit).unwrap();
            });
        }
    });
    assert_eq!((place.content("a"), place.names()), (words('n'), vec!["a".to_owned()]));
}

/// TE23: neither where the content cannot be made, nor where somebody else has changed the file meanwhile.
#[test]
fn a_write_that_is_given_up_leaves_the_file_as_it_is() {
    let place = Place::with("a", "old");
    let cut = |_: &mut crate::replace::Content<'_>| Err(std::io::ErrorKind::UnexpectedEof.into());
    crate::replace::replace(&place.context, (&place.path("a"), false), cut, || Ok(())).unwrap_err();
    let refuse = || Err(Error::failed("changed"));
    let error =
        crate::replace::replace(&place.context, (&place.path("a"), false), |_| Ok(()), refuse).unwrap_err();
    assert_eq!(error.message(), "changed");
    assert_eq!((place.content("a").as_str(), place.names()), ("old", vec!["a".to_owned()]));
}

#[test]
fn a_link_stays_a_link_and_its_target_is_replaced() {
    let place = Place::with("real", "old");
    fs::create_dir(place.path("folder")).unwrap();
    std::os::unix::fs::symlink("../real", place.path("folder/link")).unwrap();
    std::os::unix::fs::symlink("folder/link", place.path("chain")).unwrap();
    place.call::<Write>(json!({ "file_path": "chain", "content": "new" })).unwrap();
    assert_eq!(place.content("real"), "new");
    place.call::<Edit>(edit("folder/link", "new", "newer")).unwrap();
    assert_eq!(place.content("real"), "newer");
    assert!(place.path("chain").is_symlink() && place.path("folder/link").is_symlink());
}

#[test]
fn a_circle_of_links_ends() {
    let place = Place::new();
    std::os::unix::fs::symlink("b", place.path("a")).unwrap();
    std::os::unix::fs::symlink("a", place.path("b")).unwrap();
    let message = place.error::<Write>(json!({ "file_path": "a", "content": "" }));
    assert!(message.ends_with("more than 8 symbolic links lead on from each other"), "{message}");
}

#[test]
fn the_definitions_say_what_is_required() {
    let required = |definition: testing::Definition| definition.parameters["required"].clone();
    assert_eq!(required(testing::definition::<Read>()), json!(["file_path"]));
    assert_eq!(required(testing::definition::<Write>()), json!(["file_path", "content"]));
    assert_eq!(required(testing::definition::<Edit>()), json!(["file_path", "old_string", "new_string"]));
    assert!(testing::definition::<Read>().hints.read_only);
    assert!(
        testing::definition::<Write>().hints.destructive && testing::definition::<Edit>().hints.destructive
    );
}
