//! docs/troubleshooting.md: each message that it explains is one of haft's.

use std::fs;
use std::path::Path;

use crate::common::repository;

/// The messages of a source file in the form of the page: an ellipsis for each inserted value, and no line breaks.
fn as_written(source: &str) -> String {
    let joined: String = source
        .split("\\\n")
        .enumerate()
        .map(|(at, part)| if at == 0 { part } else { part.trim_start() })
        .collect();
    let mut text = String::new();
    let mut rest = joined.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        text += before;
        let inner = after.split_once('}').filter(|(inner, _)| !inner.contains(['\n', '{', '"']));
        text.push(if inner.is_some() { '…' } else { '{' });
        rest = inner.map_or(after, |(_, behind)| behind);
    }
    (text + rest).replace("\\\"", "\"")
}

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("tests") {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push(as_written(text.split("#[cfg(test)]").next().unwrap()));
        }
    }
}

/// The message in a heading: a code span, between one backtick or two.
fn message(heading: &str) -> &str {
    let double = heading.strip_prefix("``").and_then(|text| text.strip_suffix("``"));
    let span = double.or_else(|| heading.strip_prefix('`')?.strip_suffix('`'));
    span.unwrap_or_else(|| panic!("no code span: {heading}")).trim_matches(' ').trim_matches('…')
}

#[test]
fn every_message_of_troubleshooting_is_in_the_sources() {
    let mut all = Vec::new();
    for folder in ["host", "plugins"] {
        sources(&repository().join(folder), &mut all);
    }
    let page = fs::read_to_string(repository().join("docs/troubleshooting.md")).unwrap();
    let messages: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("### ")).map(message).collect();
    assert!(messages.len() > 35, "{}", messages.len());
    let gone: Vec<_> =
        messages.iter().filter(|message| !all.iter().any(|text| text.contains(**message))).collect();
    assert!(gone.is_empty(), "haft does not say (or no longer): {gone:#?}");
    for part in page.split("\n### ").skip(1) {
        assert!(part.contains("**Cause:**") && part.contains("**Way out:**"), "{part}");
    }
}
