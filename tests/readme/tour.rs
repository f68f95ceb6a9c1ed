//! README's two minutes, line by line in their order, and their lines in the journal.

use std::fs;

use super::{Reader, shown_below, without_times};
use crate::common::repository;

pub(super) const LINES: &[&str] = &[
    "haft init",
    "haft call bash --arg command='wc -w plan.md'",
    "haft call write '{\"file_path\": \"~/shared/list.md\", \"content\": \"milk\"}'",
    "haft add ./wordcount.wasm",
    "haft call wordcount__count --arg path=plan.md",
    "haft call wordcount__count --arg path=plan.md --allow wordcount:read=.",
    "haft log --failed --since 2h",
];

/// A line of `haft log` without the call's time and id.
fn logged(line: &str) -> String {
    without_times(line).split(' ').skip(3).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_tour_goes_as_it_is_shown() {
    let reader = Reader::new().asked();
    reader.home.write("plan.md", "Buy milk, mend the roof.\n");
    reader.runs("mkdir ~/shared");
    let component = repository().join("plugins/built/wordcount.wasm");
    fs::copy(component, reader.home.work().join("wordcount.wasm")).unwrap();
    for line in LINES {
        match *line {
            // `plugins` compares the output of this line, because it needs a person's answer.
            "haft add ./wordcount.wasm" => {
                reader.runs(&format!("{line} --yes"));
            }
            line if line.starts_with("haft log") => {
                let own: Vec<_> = reader.hears(line).iter().map(|line| logged(line)).collect();
                let shown: Vec<_> = shown_below(line).iter().map(|line| logged(line)).collect();
                assert_eq!(own, shown);
            }
            line => reader.sees_what_is_shown(line),
        }
    }
}
