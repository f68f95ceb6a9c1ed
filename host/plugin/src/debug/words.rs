//! A guest's own report of its end: the panic of a Rust or Go program, the traceback of Python, the stack of
//! JavaScript, an assertion of C. This text comes from the guest: it is shown and decides nothing.

use super::frame::{Frame, Place, is_generated, is_library};
use haft_core::net::one_line;
use haft_core::report::shortened;

/// Maximum number of characters of a message.
const MAX_MESSAGE: usize = 300;

/// Maximum number of read frames; deeper frames are less informative.
const MAX_FRAMES: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastWords {
    pub(crate) message: String,
    pub(crate) is_panic: bool,
    /// The line that a message without a stack names.
    pub(crate) place: Option<Place>,
    /// The author's stack frames, innermost first.
    pub(crate) frames: Vec<Frame>,
}

/// Returns the last message in a guest's standard error. An interpreter's message takes precedence over that of the
/// program that embeds the interpreter.
pub(crate) fn read(stderr: &str) -> Option<LastWords> {
    [traceback, script, goroutine, panic, assertion].iter().find_map(|read| read(stderr))
}

impl LastWords {
    fn new(message: &str) -> Self {
        let message = shortened(&one_line(message.trim()), MAX_MESSAGE);
        Self { message, is_panic: false, place: None, frames: Vec::new() }
    }

    /// Returns the line of the author's that it is about; of a library's where no other is known.
    pub(crate) fn place(&self) -> Option<&Place> {
        let own = self.place.iter().filter(|place| !is_library(&place.file));
        own.chain(self.frames.iter().filter_map(|frame| frame.place.as_ref())).next()
    }
}

/// Parses Python's `Traceback (most recent call last):`, with files, functions and the exception. Of several
/// tracebacks the last one is unhandled.
fn traceback(stderr: &str) -> Option<LastWords> {
    let (_, text) = stderr.rsplit_once("Traceback (most recent call last):\n")?;
    let mut frames: Vec<Frame> = text
        .lines()
        .take_while(|line| line.starts_with(' '))
        .take(MAX_FRAMES)
        .filter_map(|line| {
            let (file, rest) = line.strip_prefix("  File \"")?.split_once("\", line ")?;
            let (number, function) = rest.split_once(", in ")?;
            Some(Frame {
                function: function.to_owned(),
                place: Place::new(mounted(file), number.parse().ok()?),
            })
        })
        .filter(is_own)
        .collect();
    frames.reverse();
    let exception = text.lines().skip_while(|line| line.starts_with(' '));
    let exception: Vec<&str> =
        exception.take_while(|line| !line.trim().is_empty() && !line.starts_with("thread '")).collect();
    (!exception.is_empty()).then(|| LastWords { frames, ..LastWords::new(&exception.join("\n")) })
}

/// Returns a file of a component in Python, without the number of the folder that it lay in when the component was
/// made.
fn mounted(file: &str) -> &str {
    let rest = file.strip_prefix('/').and_then(|path| path.split_once('/'));
    rest.filter(|(folder, _)| folder.bytes().all(|byte| byte.is_ascii_digit())).map_or(file, |(_, path)| path)
}

/// JavaScript, as `haft plugin build` prints it: `Uncaught TypeError: …` and `    at f (plugin.js:3:5)`.
fn script(stderr: &str) -> Option<LastWords> {
    let (_, text) = stderr.rsplit_once("Uncaught ")?;
    let is_frame = |line: &&str| line.starts_with("    at ");
    let message: Vec<&str> =
        text.lines().take_while(|line| !is_frame(line) && !line.starts_with("thread '")).collect();
    let frames = text.lines().skip(message.len()).take_while(is_frame).take(MAX_FRAMES);
    let frame = |line: &str| {
        let text = line.trim().strip_prefix("at ")?;
        let (function, place) = match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
            Some((function, place)) => (function, place),
            None => ("", text),
        };
        Some(Frame { function: function.to_owned(), place: Place::parse(place) })
    };
    let frames = frames.filter_map(frame).filter(is_own).collect();
    Some(LastWords { frames, ..LastWords::new(&message.join("\n")) })
}

/// Go: `panic: …` or `fatal error: …`, and below `goroutine 1 [running]:` each function with its line.
fn goroutine(stderr: &str) -> Option<LastWords> {
    let text = ["panic: ", "fatal error: "].iter().find_map(|word| at_line_begin(stderr, word))?;
    let (head, stack) = text.split_once("\ngoroutine ")?;
    let message = head.lines().take_while(|line| !line.is_empty() && !line.starts_with("[signal "));
    let message: Vec<&str> = message.collect();
    let mut lines = stack.lines().skip(1).take_while(|line| !line.is_empty()).take(2 * MAX_FRAMES);
    let mut frames = Vec::new();
    while let (Some(function), Some(place)) = (lines.next(), lines.next()) {
        let place = place.trim().split(" +0x").next().and_then(Place::parse);
        let package = function.split(['/', '.']).next().unwrap_or_default();
        let is_generated = place
            .as_ref()
            .is_none_or(|place| place.file.contains("/bindings/") || place.file.starts_with('<'));
        if GO_LIBRARY.split(' ').any(|own| own == package) || function.starts_with("panic(") || is_generated {
            continue;
        }
        frames.push(Frame { function: short(function).to_owned(), place });
    }
    let message = message.join("\n");
    let message = message.strip_suffix(" [recovered]").unwrap_or(&message);
    Some(LastWords { is_panic: true, frames, ..LastWords::new(message) })
}

/// Returns the rest of a text after a word that a line begins with.
fn at_line_begin<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.strip_prefix(word).or_else(|| Some(text.split_once(&format!("\n{word}"))?.1))
}

/// Returns `ways.Find` of `local/faults/ways.Find(0x3)`.
fn short(function: &str) -> &str {
    let named = function.rsplit_once('(').map_or(function, |(name, _)| name);
    named.rsplit_once('/').map_or(named, |(_, name)| name)
}

/// Packages of Go's library by the first part of their paths.
const GO_LIBRARY: &str = "archive bufio bytes cmp compress container context crypto database debug encoding errors expvar \
    flag fmt go hash html image index internal io iter log maps math mime net os path reflect \
    regexp runtime slices sort strconv strings structs sync syscall testing text time unicode \
    unique unsafe vendor weak";

/// Rust: `panicked at src/lib.rs:3:5:`, and the message below.
fn panic(stderr: &str) -> Option<LastWords> {
    let (_, text) = stderr.rsplit_once("panicked at ")?;
    let (place, message) = text.split_once(":\n").unwrap_or((text, ""));
    let place = Place::parse(place)?;
    // The reader cannot set the guest's environment.
    let message = message.split("\nnote: run with `RUST_BACKTRACE").next().unwrap_or(message);
    Some(LastWords { is_panic: true, place: Some(place), ..LastWords::new(message) })
}

/// C: `Assertion failed: x > 0 (src/plugin.c: f: 12)`.
fn assertion(stderr: &str) -> Option<LastWords> {
    let (_, text) = stderr.rsplit_once("Assertion failed: ")?;
    let line = text.lines().next()?;
    let (condition, rest) = line.strip_suffix(')')?.rsplit_once(" (")?;
    let [file, function, number] = rest.splitn(3, ": ").collect::<Vec<_>>().try_into().ok()?;
    let place = Place::new(file, number.parse().ok()?);
    let frame = Frame { function: function.to_owned(), place: place.clone() };
    Some(LastWords {
        place,
        frames: vec![frame],
        ..LastWords::new(&format!("Assertion failed: {condition}"))
    })
}

fn is_own(frame: &Frame) -> bool {
    frame.place.as_ref().is_some_and(|place| !is_library(&place.file) && !is_generated(&place.file))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the message, the place and the functions in a guest's standard error.
    fn told(stderr: &str) -> (String, String, Vec<String>) {
        let words = read(stderr).unwrap_or_else(|| panic!("nothing in {stderr}"));
        let place = words.place().map(ToString::to_string).unwrap_or_default();
        (words.message.clone(), place, words.frames.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn rust_names_the_place_and_the_message_below() {
        let text = "\nthread '<unnamed>' (1) panicked at src/lib.rs:16:39:\na word:\n  none\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        assert_eq!(told(text), ("a word: none".into(), "src/lib.rs:16".into(), vec![]));
        let library = read("panicked at /rustc/abc/library/core/src/str/mod.rs:833:21:\nbad index").unwrap();
        assert_eq!(library.place(), None, "the author's is looked for elsewhere");
    }

    #[test]
    fn python_is_told_by_its_last_traceback() {
        let text = "a warning\nTraceback (most recent call last):\n  File \"/1/app.py\", line 3, in <module>\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"/0/haft_app.py\", line 41, in call\n    answer = function(*arguments)\n             ^^^^^^^^\n  File \"/1/app.py\", line 18, in uncaught\n  File \"/1/words.py\", line 10, in find\n  File \"/python/lib/json/decoder.py\", line 5, in decode\nLookupError: no word 3\n\nthread '<unnamed>' panicked at runtime/src/lib.rs:1293:29:\nPython function threw an unexpected exception\n";
        let frames = vec!["find (words.py:10)".into(), "uncaught (app.py:18)".into()];
        assert_eq!(told(text), ("LookupError: no word 3".into(), "words.py:10".into(), frames));
    }

    #[test]
    fn javascript_is_told_as_haft_has_it_written() {
        let text = "Uncaught TypeError: cannot read property 'word' of undefined\n    at find (plugin.js:5:9)\n    at nullDereference (plugin.js:11:18)\n    at <anonymous> (build/js/guard.js:9:2)\nthread '<unnamed>' panicked at crates/runtime/src/interpreter.rs:51:31:\nFailed";
        let frames = vec!["find (plugin.js:5)".into(), "nullDereference (plugin.js:11)".into()];
        let message = "TypeError: cannot read property 'word' of undefined".to_owned();
        assert_eq!(told(text), (message, "plugin.js:5".into(), frames));
    }

    #[test]
    fn go_is_told_whole_without_its_own_functions() {
        let text = "panic: runtime error: invalid memory address or nil pointer dereference\n[signal 0xb code=0x0 addr=0x0 pc=0x0]\n\ngoroutine 1 [running]:\nstrings.Repeat(...)\n\tstrings/strings.go:18\nlocal/faults/ways.(*entry).find(0x3)\n\tlocal/faults/ways/ways.go:18 +0x6\nlocal/faults/ways.NullDereference(...)\n\tlocal/faults/ways/ways.go:20\nlocal/faults/bindings/exports/wit_exports.wasm_export(0x3)\n\tlocal/faults/bindings/exports/wit_exports/wit_exports.go:29 +0x6\n";
        let (message, place, frames) = told(text);
        assert_eq!(message, "runtime error: invalid memory address or nil pointer dereference");
        assert_eq!(place, "local/faults/ways/ways.go:18");
        assert_eq!(frames[1], "ways.NullDereference (local/faults/ways/ways.go:20)");
        assert_eq!(frames.len(), 2, "{frames:?}");
    }

    #[test]
    fn c_names_the_assertion() {
        let text = "Assertion failed: index > 100 (src/plugin.c: uncaught: 38)\n";
        let frames = vec!["uncaught (src/plugin.c:38)".to_owned()];
        assert_eq!(told(text), ("Assertion failed: index > 100".into(), "src/plugin.c:38".into(), frames));
    }

    #[test]
    fn what_says_nothing_of_an_end_is_left_alone() {
        for text in [
            "",
            "memory allocation of 1048576 bytes failed",
            "panic: no",
            "Traceback (most recent call last):\n",
            "panicked at nowhere",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let long = read(&format!("panicked at a.rs:1:1:\n{}", "x".repeat(10_000))).unwrap();
        assert!(long.message.chars().count() <= MAX_MESSAGE + 1);
    }
}
