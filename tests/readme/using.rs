//! README's first steps, and the output of `haft doctor` in docs/sandbox.md.

use serde_json::json;

use super::{Reader, shown_below};
use crate::cli::Answer;
use crate::common::repository;
use crate::sessions::{Model, Says};

pub(super) const LINES: &[&str] = &[
    "haft -p program.toml.example call wordcount__count --arg path=/etc/passwd",
    "haft init",
    "haft check",
    "haft doctor",
    "haft tools",
    "haft tools read",
    "haft call read '{\"file_path\": \"program.toml\", \"limit\": 5}'",
    "haft call bash --arg command='git status'",
    "haft run --base-url http://localhost:8080/v1 --model local 'What is in this folder?'",
    "haft chat",
    "haft serve",
    "haft log --failed --since 2h",
];

/// The files that a shell and `man` read.
pub(super) const KEPT: &[&str] = &[
    "haft self completions bash > ~/.local/share/bash-completion/completions/haft",
    "haft self man ~/.local/share/man/man1",
];

#[test]
fn a_file_outside_the_grant_is_refused_with_the_way_out() {
    let reader = Reader::new().asked();
    // The example's tools may write below the repository, where the tests' own cache may be.
    let cache = tempfile::tempdir().unwrap();
    let mut shell = reader.shell(LINES[0]);
    let output = shell.current_dir(repository()).env("XDG_CACHE_HOME", cache.path()).output().unwrap();
    let answer = Answer::from(output);
    assert_eq!((answer.code, answer.stdout.as_str()), (1, ""));
    assert!(
        answer.stderr.contains("hint: haft proposes no line to allow it: that would grant `/etc`"),
        "{}",
        answer.stderr
    );
    assert_eq!(answer.stderr.lines().collect::<Vec<_>>(), shown_below(LINES[0]));
}

/// The lines of README's section work in a folder with a git repository, as a reader's folder is.
#[test]
fn what_stands_under_using_it_works() {
    let model = Model::start(|_| Says::text("A program.toml."));
    let reader = Reader::new().asked().where_is("http://localhost:8080/v1", model.base_url());
    reader.runs("git init --quiet .");
    for line in &LINES[1..] {
        let initialize = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "raw", "version": "0" },
        });
        let asked = [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
        ];
        let [initialize, list] = asked.map(|message| message.to_string());
        let answer = reader.types(line, &format!("{initialize}\n{list}\n"));
        let Answer { stdout, stderr, code } = &answer;
        let (expected, part) = match *line {
            "haft init" => (0, "program.toml`; `haft check` checks it"),
            "haft doctor" => (*code, "Sandbox"),
            "haft tools" => (0, "bash"),
            "haft tools read" => (0, "file_path: string, required"),
            "haft chat" => (5, "needs a terminal"),
            "haft serve" => (0, "\"name\":\"bash\""),
            line if line.starts_with("haft call read") => (0, "[program]"),
            line if line.starts_with("haft call bash") => (0, "No commits yet"),
            line if line.starts_with("haft run") => (0, "A program.toml."),
            _ => (0, ""),
        };
        assert_eq!(*code, expected, "{line}\n{stdout}{stderr}");
        assert!(stdout.contains(part) || stderr.contains(part), "{line}\n{stdout}{stderr}");
        // Exit code 6: the kernel of this machine does not support all layers, and haft reported that.
        assert!([0, 5, 6].contains(code), "{line}\n{stdout}{stderr}");
    }
    model.assert_content();
}

#[test]
fn completions_and_manual_pages_lie_where_they_are_looked_for() {
    let reader = Reader::new().asked();
    reader.runs("mkdir -p ~/.local/share/bash-completion/completions");
    for line in KEPT {
        reader.runs(line);
    }
    reader.runs("grep -q _haft ~/.local/share/bash-completion/completions/haft");
    reader.runs("test -s ~/.local/share/man/man1/haft-call.1");
}

/// docs/sandbox.md shows the output of a machine with all layers of the sandbox; on other machines the test is
/// skipped.
#[test]
fn the_doctor_says_what_the_readme_shows() {
    let blocks = super::blocks();
    let block = blocks.iter().find(|block| block.starts_with("Sandbox\n")).unwrap();
    let reader = Reader::new().asked();
    reader.home.write("program.toml", "[program]\nname = \"a\"\nversion = \"0.1.0\"\n");
    let said = reader.types("haft doctor", "").stdout;
    if !said.contains("✓ verdict       full") {
        eprintln!(
            "SKIPPED: this machine does not offer all layers of the sandbox, that of docs does\n{said}"
        );
        return;
    }
    let words = |text: &str| -> Vec<String> {
        let kept: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        // The number of attempts, their duration and the kernel's version depend on the machine.
        kept.replace("00", "0").replace("00", "0").split_whitespace().map(str::to_owned).collect()
    };
    for line in block.lines() {
        assert!(said.lines().any(|own| words(own) == words(line)), "`{line}` is not in\n{said}");
    }
}
