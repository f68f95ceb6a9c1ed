//! Lists the instruction files (`AGENTS.md`, skills) that a model receives: at the start of a run, and in
//! `haft check`. Shows none of their text.

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::terminal::{DIM, Show, Terminal};
use haft::program::Guidance;
use haft_core::project::agents_md::AgentsMd;
use haft_core::report::{Problem, plain};
use haft_core::tool::tokens;

/// Lists, at the start of a run, the files of the project that the model receives.
pub(super) fn told(guidance: &Guidance, show: Show, terminal: Terminal) {
    if show != Show::All {
        return;
    }
    let files: Vec<String> = guidance.agents_md.iter().map(file).collect();
    if !files.is_empty() {
        terminal.message(format_args!("{DIM}the model reads {}{DIM:#}", files.join(", ")));
    }
    if let Some(passed_over) = passed_over(guidance) {
        terminal.message(format_args!("{DIM}{passed_over}{DIM:#}"));
    }
    for refused in &guidance.refused {
        terminal.warning(&plain(refused));
    }
}

/// Returns one line with the files that exist and are not read.
fn passed_over(guidance: &Guidance) -> Option<String> {
    let name = |path: &PathBuf| format!("`{}`", plain(&path.display().to_string()));
    let named: Vec<_> = guidance.passed_over.iter().map(name).collect();
    (!named.is_empty()).then(|| {
        format!("not read, because another file takes precedence in its folder: {}", named.join(", "))
    })
}

fn file(file: &AgentsMd) -> String {
    let (path, size) = (plain(&file.path.display().to_string()), file.size);
    match (file.is_cut, file.text.len()) {
        (false, _) => format!("`{path}` ({size} bytes)"),
        (true, 0) => format!("none of `{path}` ({size} bytes): no space left"),
        (true, told) => format!("the first {told} of {size} bytes of `{path}`"),
    }
}

/// Returns the lines of `haft check` for files and skills.
pub(super) fn summary(guidance: &Guidance) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    for own in &guidance.agents_md {
        let _ = write!(text, "\nthe model reads {}, about {} tokens", file(own), tokens(own.text.len()));
    }
    if let Some(passed_over) = passed_over(guidance) {
        let _ = write!(text, "\n{passed_over}");
    }
    for known in guidance.skills.skills() {
        let _ = write!(text, "\nskill `{}` of {}", known.skill.name, plain(&known.origin));
    }
    text
}

/// Returns the files and the skills as data.
pub(super) fn as_json(guidance: &Guidance) -> (Value, Value) {
    let file = |own: &AgentsMd| json!({ "path": own.path, "bytes": own.size, "told_bytes": own.text.len(), "cut": own.is_cut });
    let skill = |known: &haft_core::skill::Shelved| {
        let (skill, folder) = (&known.skill, known.files.folder());
        json!({ "name": skill.name, "description": skill.description, "origin": known.origin, "folder": folder })
    };
    let files: Vec<_> = guidance.agents_md.iter().map(file).collect();
    let skills: Vec<_> = guidance.skills.skills().iter().map(skill).collect();
    (files.into(), skills.into())
}

/// Returns warnings about files and skills.
pub(super) fn problems(guidance: &Guidance) -> impl Iterator<Item = Problem> {
    let all = guidance.refused.iter().chain(guidance.skills.problems());
    all.map(|text| Problem::new(plain(text)).warning())
}
