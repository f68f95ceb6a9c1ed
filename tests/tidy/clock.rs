//! No test of the gate depends on the clock: none sleeps, compares a duration or waits for less than [`HANG`].
//!
//! [`HANG`]: crate::common::wait::HANG

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::repository;

/// Files that may measure time, and code that is not a test: guests, servers and targets of fuzzing.
const FREE: &[&str] = &[
    "tests/common/wait.rs",
    "tests/slow",
    "tests/bench",
    "tests/guests",
    "tests/fuzz",
    "tests/faults",
    "tests/mcp_component/servers",
];

#[test]
fn no_test_of_the_gate_has_a_clock() {
    let tests = tests();
    let all: BTreeSet<String> = tests.iter().flat_map(|(_, text)| constants(text, true)).collect();
    let mut wrong: Vec<String> = tests
        .iter()
        .flat_map(|(file, text)| {
            // A file may use the name for another value, while it is a duration in other files.
            let others = constants(text, false).into_iter().collect();
            let found = clocks(text, &all.difference(&others).cloned().collect());
            found.into_iter().map(|(at, why)| {
                let line = text[..at].lines().count().max(1);
                format!("{}:{line}: {why}", file.display())
            })
        })
        .collect();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}\n`common::wait` waits, `tests/slow` measures", wrong.join("\n"));
    assert!(tests.len() > 200, "found only {} files", tests.len());
}

/// The code of tests, without comments and the text of strings.
fn tests() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![repository().join("tests"), repository().join("host")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let short = path.strip_prefix(repository()).unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if short.extension().is_some_and(|end| end == "rs")
                && !FREE.iter().any(|place| short.starts_with(place))
            {
                let code = code(&fs::read_to_string(&path).unwrap());
                found.push(if is_test(&short) { (short, code) } else { (short, unit_tests(&code)) });
            }
        }
    }
    found.sort();
    found
}

fn is_test(file: &Path) -> bool {
    file.starts_with("tests") || file.ends_with("tests.rs") || file.iter().any(|part| part == "tests")
}

/// Replaces comments and the text of strings by spaces.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = hidden(rest, code.chars().next_back());
        let (taken, left) = rest.split_at(length.unwrap_or(first.len_utf8()));
        match length {
            Some(_) => code.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' })),
            None => code.push(first),
        }
        rest = left;
    }
    code
}

/// The number of bytes of the comment, string or character at the start of `text`.
fn hidden(text: &str, before: Option<char>) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if let Some(raw) = text.strip_prefix('r').filter(|_| !before.is_some_and(|c| is_word(c) && c != 'b')) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inside = raw[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(2 + hashes + inside.find(&end)? + end.len());
    }
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    let end = text[1..].char_indices().find(|(_, c)| {
        let is_end = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        is_end
    });
    let length = end?.0 + 2;
    // A lifetime has no second quote.
    let is_character = text.starts_with("'\\") || text[..length].chars().count() == 3;
    (quote == '"' || is_character).then_some(length)
}

/// The code of a crate's file inside `#[cfg(test)]`; the other lines are empty.
fn unit_tests(code: &str) -> String {
    let mut end: Option<&str> = None;
    let mut only = String::new();
    for line in code.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        if end.is_none() && line.trim_start().starts_with("#[cfg(test)]") {
            end = Some(indent);
        }
        if let Some(outer) = end {
            only += line;
            // The item ends with a line that has the item's own indentation.
            let is_last = line.trim_end().ends_with(['}', ';']) && indent == outer;
            end = (!is_last).then_some(outer);
        }
        only.push('\n');
    }
    only
}

/// The names of constants that are durations, or of all other constants.
fn constants(code: &str, are_durations: bool) -> Vec<String> {
    let name = |line: &str| {
        let (name, rest) = line.split_once("const ")?.1.split_once(": ")?;
        let is_duration = rest.starts_with("Duration =") || rest.starts_with("std::time::Duration =");
        (is_duration == are_durations).then(|| name.to_owned())
    };
    code.lines().filter_map(name).collect()
}

/// The places that depend on time, with the reason for each.
fn clocks(code: &str, constants: &BTreeSet<String>) -> Vec<(usize, &'static str)> {
    // rustfmt breaks a line before an operator or a method.
    let code = &code.replace('\n', " ");
    let found = [
        ("a sleep", sleeps(code)),
        ("a comparison of a time", comparisons(code, constants)),
        ("a wait that is not for `HANG`", waits(code, constants)),
    ];
    found.into_iter().flat_map(|(why, places)| places.into_iter().map(move |at| (at, why))).collect()
}

fn sleeps(code: &str) -> Vec<usize> {
    let names = ["sleep", "sleep_until", "sleep_ms", "park_timeout", "interval"];
    let calls = names.iter().flat_map(|name| calls(code, name));
    calls.filter(|at| !code[..*at].ends_with('.')).collect()
}

fn comparisons(code: &str, constants: &BTreeSet<String>) -> Vec<usize> {
    let bound = code.match_indices("let ").filter_map(|(at, _)| {
        let (name, value) = code[at + 4..].split_once(" = ")?;
        let is_time = value.split_once(';')?.0.ends_with("elapsed()");
        (is_time && name.chars().all(is_word)).then_some(name)
    });
    let times: BTreeSet<&str> = bound.chain(constants.iter().map(String::as_str)).collect();
    let is_time = |(left, right): (&str, &str)| {
        // A number of seconds is a time too.
        let left = left
            .rsplit_once(".as_")
            .filter(|(_, unit)| unit.ends_with("()") && !unit.contains(' '))
            .map_or(left, |(time, _)| time);
        let variable = &left[left.trim_end_matches(is_word).len()..];
        let path = &right[..right.len() - right.trim_start_matches(|c| is_word(c) || c == ':').len()];
        let name = path.rsplit("::").next().unwrap_or_default();
        left.ends_with("elapsed()")
            || left.ends_with("Instant::now()")
            || path.contains("Duration::") && name != "ZERO"
            || path.ends_with("Instant::now")
            || times.contains(variable)
            || times.contains(name)
    };
    let operators = [" < ", " <= ", " > ", " >= "].into_iter().flat_map(|operator| {
        code.match_indices(operator).map(|(at, _)| (at, code[at + operator.len()..].trim_start()))
    });
    operators.filter(|(at, right)| is_time((code[..*at].trim_end(), right))).map(|(at, _)| at).collect()
}

fn waits(code: &str, constants: &BTreeSet<String>) -> Vec<usize> {
    let names =
        ["timeout", "recv_timeout", "wait_timeout", "set_read_timeout", "set_write_timeout", "timeout_at"];
    let calls = names.iter().flat_map(|name| calls(code, name).map(move |at| (at, at + name.len() + 1)));
    let is_short = |word: &str| {
        let is_constant = word == "Duration" || constants.contains(word) && word != "HANG";
        is_constant || word.starts_with(|c: char| c.is_ascii_digit())
    };
    let is_short = |argument: &str| argument.split(|c| !is_word(c)).any(is_short);
    calls.filter(|(_, after)| is_short(argument(&code[*after..]))).map(|(at, _)| at).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The places where a function of this name is called.
fn calls<'a>(code: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let found = code.match_indices(name).map(|(at, _)| at);
    found.filter(move |at| {
        let before = &code[..*at];
        code[at + name.len()..].starts_with('(') && !before.ends_with(is_word) && !before.ends_with("fn ")
    })
}

/// The first argument of a call.
fn argument(rest: &str) -> &str {
    let mut depth = 0_i32;
    let end = rest.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth < 0 || (c == ',' && depth == 0)
    });
    &rest[..end.unwrap_or(rest.len())]
}

/// The gate runs no test of `tests/slow`: each has the `ignore` attribute for the nightly run.
#[test]
fn every_slow_test_runs_by_night() {
    let folder = fs::read_dir(repository().join("tests/slow")).unwrap();
    for path in folder.map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let tests =
            lines.windows(2).filter(|pair| pair[0] == "#[test]" || pair[0].starts_with("#[tokio::test"));
        for test in tests {
            assert_eq!(test[1], "#[ignore = \"by night: it measures time\"]", "{}", path.display());
        }
    }
}
