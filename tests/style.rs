//! Old phrases are absent from every text that a person reads: messages, help, the dashboard, documentation in the
//! code, and every document. CONTRIBUTING.md has the rules, with the words to write instead.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::repository;

/// Phrases in lower case, each from a message, help or a document of earlier versions.
const TURNS: &[&str] = &[
    // Inversions, and clauses instead of nouns.
    "by whose leave",
    "what came of it",
    "what came of them",
    "nobody said",
    "whose model to ask",
    "nobody knows what",
    "nobody is here",
    "nobody agreed here",
    "since nobody agreed",
    "there is nobody to ask",
    "whoever",
    "answer there what waits",
    "which send them over",
    "unless said above",
    "asks for what it does not have",
    "says of itself",
    "say of themselves",
    "be it by",
    "so is a refusal that",
    // Missing nouns.
    "is none of",
    "that is none",
    "switches them as before",
    "is called so",
    "counts as the bytes",
    "what would be too much",
    "of everything else the model reads",
    "where it is to be used",
    "no such task of yours",
    // Metaphors for the field's terms.
    "cannot be had",
    "is there already",
    "nothing is here",
    "leads out of",
    "leads nowhere",
    "in the place of",
    "anew",
    "leave it away",
    "goes on with it",
    "go on with it",
    "gone on with",
    "outgrows",
    "outgrown",
    "summed up",
    "sum up by itself",
    "for want of",
    "speaks to the model",
    "lives on workers",
    "live on workers",
    "stands last",
    "passed over",
    "noted down",
    "written down",
    "went away",
    "made ready",
    "taken for gone",
    "a defect of haft",
    "attempts to get out",
    "confined by less",
    "a plugin keeps none",
    "is left out of what is sent",
];

/// The section of CONTRIBUTING.md that quotes phrases beside the words to write instead.
const EXAMPLES: &str = "## Words and sentences";

/// Collects the files below `folder` that people read: neither tests nor generated bindings.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" {
                files(&path, found);
            }
        } else if [".rs", ".js", ".html", ".md", ".toml", ".py", ".sh"].iter().any(|end| name.ends_with(end))
            && !["tests.rs", "bindings.rs"].iter().any(|end| name.ends_with(end))
        {
            found.push(path);
        }
    }
}

/// The text without unit tests and without comments that are not documentation, in lower case, with single spaces.
fn read_by_people(text: &str) -> String {
    let product = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let product = product.split(EXAMPLES).enumerate().map(|(index, part)| {
        if index == 0 { part } else { part.find("\n## ").map_or("", |next| &part[next..]) }
    });
    let mut read = String::new();
    for line in product.flat_map(str::lines).map(str::trim) {
        let documented = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        if documented.is_some() || !line.starts_with("//") {
            // A line of a text in the code may end with a backslash.
            read += documented.unwrap_or(line).trim_end_matches('\\');
            read.push(' ');
        }
    }
    read.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The phrases in a text, as whole words.
fn turns(read: &str) -> Vec<&'static str> {
    let is_word = |found: Option<char>| found.is_some_and(|found| found.is_alphanumeric() || found == '_');
    let is_whole = |(at, turn): (usize, &str)| {
        !is_word(read[..at].chars().next_back()) && !is_word(read[at + turn.len()..].chars().next())
    };
    TURNS.iter().copied().filter(|turn| read.match_indices(turn).any(is_whole)).collect()
}

#[test]
fn no_old_turn_is_left() {
    let root = repository();
    let mut all = Vec::new();
    files(&root.join("host"), &mut all);
    files(&root.join("docs"), &mut all);
    let documents = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    all.extend(documents.iter().chain(&["program.toml.example"]).map(|name| root.join(name)));
    assert!(all.len() > 800, "found only {} files", all.len());
    let wrong = all.iter().filter_map(|path| {
        let found = turns(&read_by_people(&fs::read_to_string(path).unwrap()));
        let path = path.strip_prefix(root).unwrap().display();
        (!found.is_empty()).then(|| format!("{path}: {}", found.join(" · ")))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "old turns ({EXAMPLES} of CONTRIBUTING.md):\n{}", wrong.join("\n"));
}

#[test]
fn a_turn_is_found_in_texts_and_documentation_and_not_in_other_comments() {
    let source = "/// For whoever\n/// calls.\nfn f() {\n    say(\"it goes \\\n        on with it\");\n}\n// made ready\n";
    assert_eq!(turns(&read_by_people(source)), ["whoever", "goes on with it"]);
    assert!(turns("an anewer word").is_empty() && TURNS.len() >= 40);
}
