//! docs/packages.md and docs/authoring.md.

use std::fs;

use super::{Reader, shown_below};
use crate::common::repository;
use crate::registry::fake::Fake;

pub(super) const LINES: &[&str] = &[
    "haft add ./wordcount.wasm",
    "haft inspect oci://ghcr.io/owner/words:1.0",
    "haft list",
    "haft update words",
    "haft verify",
    "haft remove words",
    "haft cache clean",
    "haft add",
    "haft plugin new --lang python words",
    "haft plugin publish oci://ghcr.io/me/words:0.1.0",
    "haft update --check",
    "haft add oci://ghcr.io/owner/words:1.1",
    "haft list --long",
];

fn reader(registry: &Fake) -> Reader {
    let reader = Reader::new().asked().where_is("ghcr.io", registry.address.to_string());
    let component = repository().join("plugins/built/wordcount.wasm");
    for name in ["wordcount.wasm", "words.wasm"] {
        fs::copy(&component, reader.home.work().join(name)).unwrap();
    }
    reader
}

/// The words of a line, without the current digest and size of the component.
fn words(line: &str) -> Vec<String> {
    let is_hex = |word: &str| word.len() == 64 && word.chars().all(|c| c.is_ascii_hexdigit());
    let is_digest = |word: &&str| is_hex(word.strip_prefix("sha256:").unwrap_or(word));
    let is_size = |word: &&str| word.starts_with('(') || *word == "KiB)";
    let words = line.split_whitespace().filter(|word| !is_size(word));
    words.map(|word| if is_digest(&word) { "sha256:…" } else { word }.to_owned()).collect()
}

/// `haft add` shows the text of README before consent.
#[test]
fn installing_shows_what_the_readme_shows() {
    let reader = reader(&Fake::honest());
    let Some(screen) = reader.home.at_a_terminal(&["add", "./wordcount.wasm"], "y\n") else { return };
    let screen = anstream::adapter::strip_str(&screen).to_string();
    let own: Vec<_> = screen.lines().map(words).collect();
    // `…` marks the omissions of README.
    for line in shown_below(LINES[0]).iter().filter(|line| line.trim() != "…") {
        assert!(own.contains(&words(line)), "`{line}` is not in\n{screen}");
    }
    assert!(reader.runs("haft list").stdout.contains("wordcount"), "{screen}");
}

#[test]
fn what_was_installed_is_kept_as_the_readme_says() {
    let registry = Fake::honest();
    let reader = reader(&registry);
    reader.runs("haft plugin new --lang python words");
    assert!(reader.home.work().join("words/README.md").is_file());
    fs::copy(reader.home.work().join("words.wasm"), reader.home.work().join("words/words.wasm")).unwrap();
    let publish = format!("cd words && {}", LINES[9]);
    reader.runs(&publish);
    // Packages of other publishers are read in this way.
    reader.runs(&publish.replace("me/words:0.1.0", "owner/words:1.0"));
    assert!(reader.runs(LINES[1]).stdout.contains("count"));
    reader.runs("haft add ./words.wasm --yes");
    assert!(reader.runs(LINES[2]).stdout.contains("words"));
    assert!(reader.runs(LINES[12]).stdout.contains("words__count"));
    for line in [LINES[3], LINES[4], LINES[7], LINES[6], LINES[5]] {
        reader.runs(line);
    }
    assert!(!reader.runs(LINES[2]).stdout.contains("words"));
    reader.runs("haft add oci://ghcr.io/owner/words:1.0 --yes");
    reader.runs(&publish.replace("me/words:0.1.0", "owner/words:1.1"));
    assert!(reader.types(LINES[10], "").stdout.contains("words:1.1"));
    reader.runs(LINES[11]);
    reader.runs(LINES[10]);
}
