//! docs/cookbook.md: the program.toml of each recipe, and the answers of its lines.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::servers::SERVER;
use super::{Reader, shown_below};
use crate::common::repository;
use crate::sessions::{Model, Says};

pub(super) const LINES: &[&str] = &[
    "haft call read --arg file_path=../plan.md",
    "haft call web__fetch_url --arg url=https://example.com/",
    "haft call program__notes__deploy --arg version=1.2.0 --arg dry_run=true",
    "haft call program__notes__deploy --arg versio=1.2.0",
    "haft serve --print-config codex >> ~/.codex/config.toml",
    "haft serve --print-config vscode > .vscode/mcp.json",
    "haft call mcp__files__write_file '{\"path\": \"README.md\", \"content\": \"\"}'",
    "haft run 'Is the last commit safe to release?'",
    "haft call bash --arg command='git status; git push --force origin'",
    "haft log fcd5ef9a",
];

/// The TOML of the recipe whose title starts with `title`, after the usual start of a program.toml.
fn program(title: &str) -> String {
    let page = fs::read_to_string(repository().join("docs/cookbook.md")).unwrap();
    let recipe = page.split("\n## ").find(|recipe| recipe.starts_with(title)).unwrap();
    let toml = recipe.split("\n```toml\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap();
    format!("[program]\nname = \"notes\"\nversion = \"0.1.0\"\n\n{toml}\n")
}

/// A reader with the program.toml of the recipe.
fn reader(title: &str) -> Reader {
    let reader = Reader::new();
    reader.home.write("program.toml", &program(title));
    reader
}

#[test]
fn one_folder_is_read_and_no_other() {
    let reader = reader("Let an agent read one folder");
    reader.home.write("plan.md", "Buy milk.\n");
    reader.runs("mkdir docs && echo A rose >docs/rose.md");
    assert_eq!(reader.runs("haft call read --arg file_path=rose.md").stdout, "A rose\n");
    let listed: Value = serde_json::from_str(&reader.runs("haft tools --agent --json").stdout).unwrap();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["read"]);
    reader.sees_what_is_shown(LINES[0]);
}

#[test]
fn a_plugin_reaches_its_one_host() {
    let reader = reader("Give a plugin one host").where_is("haft call", "GITHUB_TOKEN=never-sent haft call");
    fs::copy(repository().join("plugins/built/fetch.wasm"), reader.home.work().join("fetch.wasm")).unwrap();
    reader.sees_what_is_shown(LINES[1]);
}

#[test]
fn a_script_is_a_tool() {
    let reader = reader("Make a script a tool");
    reader.home.write("deploy.sh", "#!/bin/sh\n[ \"$2\" = --dry-run ] && echo \"would deploy $1\"\n");
    let script = reader.home.work().join("deploy.sh");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    reader.runs("haft check");
    reader.sees_what_is_shown(LINES[2]);
    reader.sees_what_is_shown(LINES[3]);
}

#[test]
fn clients_are_told_of_the_tools() {
    let reader = reader("Ask before");
    reader.runs("mkdir ~/.codex .vscode");
    reader.runs(LINES[4]);
    reader.runs(LINES[5]);
    reader.runs("grep -q '^command = ' ~/.codex/config.toml && grep -q '\"servers\"' .vscode/mcp.json");
}

#[test]
fn a_server_has_one_of_its_tools() {
    let script = format!("#!/usr/bin/env python3\n{SERVER}");
    let reader = reader("Use somebody's MCP server").with("mcp-server-filesystem", &script);
    reader.runs("mkdir docs && echo It works. >docs/README.md");
    let called = "haft call mcp__files__read_text_file '{\"path\": \"docs/README.md\"}'";
    assert_eq!(reader.runs(called).stdout, "It works.\n");
    reader.sees_what_is_shown(LINES[6]);
}

#[test]
fn an_agent_in_ci_answers_in_a_form() {
    let model = Model::start(|messages| {
        match messages.iter().filter(|message| message["role"] == "assistant").count() {
            0 => Says::call("bash", json!({ "command": "git log -1" })),
            1 => Says::call("bash", json!({ "command": "make release" })),
            _ => Says::text("{ \"verdict\": \"ok\", \"why\": \"Only a comment was changed.\" }"),
        }
    });
    let asked = format!("haft run --base-url {}", model.base_url());
    let reader = reader("Run an agent in CI").where_is("haft run", asked);
    let commit =
        "git -c user.name=ada -c user.email=ada@example.com commit --quiet --allow-empty --message one";
    reader.runs(&format!("git init --quiet . && {commit}"));
    reader.sees_what_is_shown(LINES[7]);
    assert_eq!(reader.runs(LINES[7]).stdout.trim_end(), shown_below(LINES[7]).last().unwrap());
    model.assert_content();
}

#[test]
fn why_a_call_was_refused_is_on_record() {
    let reader = reader("Ask before");
    reader.sees_what_is_shown(LINES[8]);
    let listed = reader.runs("haft log --failed -n 1 --json").stdout;
    let call: Value = serde_json::from_str(listed.trim_end()).unwrap();
    let reader = reader.where_is("fcd5ef9a", call["id"].as_str().unwrap());
    let said = reader.hears(LINES[9]);
    // The other lines on the page belong to another call.
    for kind in ["tool", "outcome", "decided"] {
        let shown = shown_below(LINES[9]).into_iter().find(|line| line.starts_with(kind)).unwrap();
        assert!(said.contains(&shown), "`{shown}` is not in\n{said:#?}");
    }
}

#[test]
fn a_program_is_shared_with_its_lock() {
    let reader = Reader::new();
    fs::copy(repository().join("plugins/built/wordcount.wasm"), reader.home.work().join("wordcount.wasm"))
        .unwrap();
    reader.runs("haft add ./wordcount.wasm --yes");
    reader.sees_what_is_shown("haft add");
    reader.sees_what_is_shown("haft verify");
}

/// haft knows all keys of the recipes whose container or keyring entry is missing here.
#[test]
fn the_other_recipes_are_programs_that_haft_knows() {
    for title in ["Run commands in a container", "Keep secrets out"] {
        let answer = reader(title).types("haft check", "");
        let wrong = ["unknown ", "invalid `", "TOML"];
        assert!(!wrong.iter().any(|word| answer.stderr.contains(word)), "{title}\n{}", answer.stderr);
    }
}
