//! docs/tutorial.md from its first line to its last: the test saves files, extends program.toml, runs every command,
//! and compares its output with the lines below it.

use std::collections::BTreeSet;
use std::fs;

use super::{Reader, command, without_times};
use crate::common::repository;

/// The instruction of a block of the page.
enum Step {
    /// A file's name and its content.
    Save(String, String),
    /// Lines for the end of program.toml.
    Append(String),
    /// Command lines, each with its printed lines.
    Type(Vec<(String, Vec<String>)>),
}

/// The name in the words before a block: "Save this as `NAME`".
fn file_name(words: &str) -> Option<String> {
    let last = words.trim_end().rsplit("\n\n").next()?;
    let last = last.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(last.split("ave this as `").nth(1)?.split('`').next()?.to_owned())
}

fn typed(block: &str) -> Vec<(String, Vec<String>)> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), lines.last_mut()) {
            (Some(command), _) => lines.push((command.to_owned(), Vec::new())),
            (None, Some((_, shown))) => shown.push(line.to_owned()),
            (None, None) => panic!("no command: {line}"),
        }
    }
    lines
}

/// The steps of the page after its first section, because `.ci/readme install` installs haft.
fn steps() -> Vec<Step> {
    let page = fs::read_to_string(repository().join("docs/tutorial.md")).unwrap();
    let (_, page) = page.split_once("\n## 2.").unwrap();
    let parts: Vec<_> = page.split("\n```").collect();
    let blocks = parts.chunks_exact(2).map(|pair| (pair[0], pair[1].split_once('\n').unwrap()));
    blocks
        .map(|(words, (kind, text))| match (kind, file_name(words)) {
            (_, Some(name)) => Step::Save(name, format!("{text}\n")),
            ("toml", None) => Step::Append(format!("\n{text}\n")),
            ("console", None) => Step::Type(typed(text)),
            ("sh", None) => Step::Type(text.lines().map(|line| (line.to_owned(), Vec::new())).collect()),
            (kind, None) => panic!("what is a reader to do with this {kind}?\n{text}"),
        })
        .collect()
}

/// The lines that `every_command_line_of_the_readme_is_run` looks for.
pub(super) fn lines() -> BTreeSet<String> {
    let typed = steps().into_iter().filter_map(|step| match step {
        Step::Type(lines) => Some(lines),
        _ => None,
    });
    typed.flatten().filter_map(|(line, _)| command(&line).map(str::to_owned)).collect()
}

/// A line of `haft log` without the call's time and id.
fn comparable(line: &str) -> String {
    let is_time = |word: &&str| word.len() == 8 && word.bytes().all(|c| c.is_ascii_hexdigit() || c == b':');
    let is_date = |word: &&str| word.len() == 10 && word.bytes().all(|c| c.is_ascii_digit() || c == b'-');
    let line = without_times(line);
    line.split(' ').filter(|word| !is_time(word) && !is_date(word)).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_tutorial_goes_as_it_is_written() {
    let reader = Reader::new().asked();
    let notes = reader.home.work().with_file_name("notes");
    let (mut saved, mut ran) = (0, 0);
    for step in steps() {
        match step {
            Step::Save(name, text) => {
                fs::write(notes.join(&name), &text).unwrap();
                saved += 1;
            }
            Step::Append(text) => {
                let program = fs::read_to_string(notes.join("program.toml")).unwrap();
                fs::write(notes.join("program.toml"), program + &text).unwrap();
            }
            Step::Type(lines) => {
                for (line, shown) in lines {
                    // Each line runs in a separate shell, and only the first line changes the folder.
                    let there = if ran == 0 { line.clone() } else { format!("cd ~/notes && {line}") };
                    let own: Vec<_> = reader.hears(&there).iter().map(|line| comparable(line)).collect();
                    for shown in &shown {
                        assert!(own.contains(&comparable(shown)), "{line}\n`{shown}` is not in\n{own:#?}");
                    }
                    ran += 1;
                }
            }
        }
    }
    assert!(saved == 3 && ran > 12, "{saved} files, {ran} commands");
    assert!(notes.join("archive/plan.md").is_file());
}
