//! Each promise about rights and secrets has a test, by name, in `docs/promises.md`, and each list of promises on a
//! page is complete there. Each invariant of `ARCHITECTURE.md` has a test beside it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::repository;

/// The pages with promises, and the headings whose list items are promises.
const PAGES: &[(&str, &[&str])] = &[
    ("README.md", &["# haft"]),
    ("SECURITY.md", &["## Promised"]),
    ("docs/grants.md", &["# Grants and secrets", "## Consent to a folder"]),
    ("docs/sandbox.md", &["# The sandbox"]),
];

/// A row of the table: a page, the words of a promise, and its tests.
struct Row {
    page: String,
    promise: String,
    tests: Vec<String>,
}

fn rows() -> Vec<Row> {
    let page = read("docs/promises.md");
    let cells = page.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    cells
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [page, promise, tests] = cells[..] else { panic!("{line}") };
            let tests = tests.split(", ").map(|test| test.trim_matches('`').to_owned()).collect();
            Row { page: page.to_owned(), promise: promise.to_owned(), tests }
        })
        .collect()
}

/// The text of a page.
fn read(page: &str) -> String {
    fs::read_to_string(repository().join(page)).unwrap()
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The items of the lists below `heading`, up to the next heading.
fn points(text: &str, heading: &str) -> Vec<String> {
    let (_, below) = text.split_once(&format!("{heading}\n")).unwrap_or_else(|| panic!("{heading}"));
    let below = below.split("\n#").next().unwrap();
    below.split("\n- ").skip(1).map(|point| flat(point.split("\n\n").next().unwrap())).collect()
}

/// The rows of the table that compares haft with other projects, by what haft has.
fn compared(text: &str) -> Vec<String> {
    let (_, below) = text.split_once("## Compared\n").unwrap();
    let lines = below.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("| "));
    lines.skip(1).map(str::to_owned).collect()
}

/// Collects the names of all tests below `folder`.
fn tests(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && name != "guests" {
            tests(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let after = text.split("#[test]").skip(1).chain(text.split("#[tokio::test").skip(1));
            let named = after.filter_map(|rest| rest.split_once("fn ")?.1.split_once('('));
            found.extend(named.map(|(name, _)| name.to_owned()));
        }
    }
}

fn all_tests() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for folder in ["tests", "host"] {
        tests(&repository().join(folder), &mut all);
    }
    all
}

/// The texts in backticks in the form of test names: a word in small letters with underscores.
fn named_tests(point: &str) -> Vec<&str> {
    let is_name =
        |text: &&str| text.contains('_') && text.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'));
    point.split('`').skip(1).step_by(2).filter(is_name).collect()
}

#[test]
fn every_invariant_has_a_test() {
    let (all, page) = (all_tests(), read("ARCHITECTURE.md"));
    let words = page.split_whitespace().count();
    assert!(words <= 1_800, "ARCHITECTURE.md is a map, and has {words} words");
    let (_, invariants) = page.split_once("## Invariants\n").unwrap();
    let points: Vec<_> = invariants.split("\n## ").next().unwrap().split("\n- ").skip(1).collect();
    assert!(points.len() > 20, "{}", points.len());
    for point in points {
        let named = named_tests(point.split("\n\n").next().unwrap());
        assert!(!named.is_empty(), "without a test: {point}");
        assert!(named.iter().all(|test| all.contains(*test)), "no such test: {point}");
    }
}

#[test]
fn every_promise_has_a_test() {
    let all = all_tests();
    let rows = rows();
    assert!(rows.len() > 40, "{}", rows.len());
    for Row { page, promise, tests } in &rows {
        assert!(flat(&read(page)).contains(promise), "{page} does not say: {promise}");
        let gone: Vec<_> = tests.iter().filter(|test| !all.contains(*test)).collect();
        assert!(gone.is_empty(), "{promise}: no test is called {gone:?}");
    }
    for (page, headings) in PAGES {
        let own: Vec<_> = rows.iter().filter(|row| row.page == *page).collect();
        assert!(!own.is_empty(), "{page}");
        let text = read(page);
        let facts = if *page == "README.md" { compared(&text) } else { Vec::new() };
        for point in headings.iter().flat_map(|heading| points(&text, heading)).chain(facts) {
            assert!(own.iter().any(|row| point.contains(&row.promise)), "without a test, {page}: {point}");
        }
    }
}

/// The number of lines of code of a file or a folder, without comments and tests, and without the code for macOS.
fn lines_of_code(path: &Path) -> usize {
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let is_counted = |path: &std::path::PathBuf| {
            let name = path.file_stem().unwrap();
            !["tests", "macos", "seatbelt"].iter().any(|other| name == *other)
                && (path.is_dir() || path.extension().is_some_and(|end| end == "rs"))
        };
        return entries.filter(is_counted).map(|path| lines_of_code(&path)).sum();
    }
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let code = text.lines().map(str::trim).take_while(|line| *line != "#[cfg(test)]");
    code.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// The paths that a text has in backquotes.
fn paths(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// SECURITY.md names the trusted core, which is at most 20,000 lines of code and within the page's own limit.
#[test]
fn the_trusted_core_is_small() {
    let page = read("SECURITY.md");
    let (_, below) = page.split_once("## Trusted core\n").unwrap();
    let section = below.split("\n## ").next().unwrap();
    let (left_out, counted): (Vec<_>, Vec<_>) =
        section.lines().partition(|line| line.starts_with("| not counted"));
    let [named, left_out] = [counted, left_out].map(|lines| paths(&lines.concat()));
    let different: BTreeSet<_> = named.iter().collect();
    assert!(named.len() > 40 && different.len() == named.len(), "{named:?}");
    let is_named = |path: &String| named.iter().any(|named| path.starts_with(named.as_str()));
    assert!(left_out.iter().all(is_named), "{left_out:?}");
    let [lines, less] = [&named, &left_out]
        .map(|paths| paths.iter().map(|path| lines_of_code(&repository().join(path))).sum::<usize>());
    let lines = lines - less;
    assert!((10_000..=20_000).contains(&lines), "the trusted core has {lines} lines");
    let (most, _) = section.split_once(" lines of code at most").expect("how many lines");
    let most: usize = most.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap();
    assert!(lines <= most, "{lines} lines, and SECURITY.md says at most {most}");
}
