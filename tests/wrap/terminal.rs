//! The questions of `haft wrap` at a terminal, and the effects of an answer or of its absence.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Session, Stage, forms, initialize};

/// A server with one tool.
const LISTS: &str = include_str!("lists.py");
/// A command whose server a package runner fetches.
const FETCHED: &[&str] = &["wrap", "lists", "--", "./npx"];
/// The exit code of haft whose user did not agree.
const DECLINED: i32 = 7;

/// Writes `text` as an executable program `name`.
fn write_program(stage: &Stage, name: &str, text: &str) -> PathBuf {
    let port = stage.listener.local_addr().unwrap().port().to_string();
    stage.home.write(name, &text.replace("@PORT@", &port));
    let path = stage.home.work().join(name);
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

/// Starts a client without a person; returns the answer to its first request, and haft's messages.
fn started(stage: &Stage, words: &[&str]) -> (Value, String) {
    let mut session = Session::new(&mut stage.command(words));
    let begun = session.begin(&json!({}));
    (begun, session.end().errors)
}

#[test]
fn a_shells_own_variables_are_not_proposed() {
    let stage = Stage::new();
    let exports = "export EDITOR=vi PS1=x OPENAI_API_KEY=of-the-shell NEEDING_TOKEN=x";
    let shell = write_program(&stage, "shell", &format!("#!/bin/sh\n{exports}\neval \"$2\"\nexit $?\n"));
    let variables = [("SHELL", shell.to_str().unwrap())];
    let words = stage.words(&[], "needing");
    let Some(shown) = stage.home.at_a_terminal_with(&variables, &words, "n\n") else { return };
    assert!(shown.contains("env=NEEDING_TOKEN"), "{shown}");
    for other in ["EDITOR", "PS1", "OPENAI_API_KEY"] {
        assert!(!shown.contains(other), "{shown}");
    }
    assert!(!shown.contains("was refused") && shown.contains("`haft wrap needing` in a terminal"), "{shown}");
}

#[test]
fn a_server_that_may_not_be_fetched_ends_at_once_and_is_asked_about_again() {
    let stage = Stage::new();
    write_program(&stage, "npx", LISTS);
    for answer in ["n\n", "\u{4}"] {
        let Some(shown) = stage.home.at_a_terminal(FETCHED, answer) else { return };
        assert!(shown.contains("network, until `npx` has fetched it"), "{shown}");
        assert!(shown.contains("`npx` did not fetch the server") && shown.contains("asks again"), "{shown}");
        assert!(!shown.contains("was refused to connect") && stage.records().is_empty(), "{shown}");
    }
    // A client also gets the error at once, even with an old record.
    let words = [&["wrap", "--grant", "network"], &FETCHED[1..]].concat();
    stage.home.at_a_terminal(&words, "n\n").unwrap();
    assert!(stage.records()[0].contains("declined = [\"network\"]"), "{:?}", stage.records());
    let (begun, errors) = started(&stage, FETCHED);
    let why = begun["error"]["message"].as_str().unwrap();
    assert!(why.contains("once in a terminal to agree"), "{begun}");
    assert!(!errors.contains("was refused to connect"), "{errors}");
    let mut session = Session::new(&mut stage.command(FETCHED));
    session.send(&initialize(&forms()));
    session.receive();
    session.person(&json!({ "action": "decline" }));
    let end = session.end();
    assert!(end.errors.contains("`npx` did not fetch the server"), "{}", end.errors);
    assert_eq!(end.status.code(), Some(DECLINED));
}

#[test]
fn a_fetch_is_announced_and_its_tools_are_shown_in_words() {
    let stage = Stage::new();
    write_program(&stage, "npx", LISTS);
    let Some(shown) = stage.home.at_a_terminal(FETCHED, "y\n") else { return };
    for once in ["fetching the server with `npx` …", "the server's banner", "agreed for `"] {
        assert_eq!(shown.matches(once).count(), 1, "{once}: {shown}");
    }
    assert!(shown.contains("  path: string, required") && !shown.contains("{\""), "{shown}");
    let (before, _) = shown.split_once("agree to these tools?").unwrap();
    assert!(before.trim_end_matches(|c| c != '\n').ends_with("\n\r\n"), "{before:?}");
    assert_eq!(started(&stage, FETCHED).0["result"]["serverInfo"]["name"], "lists");
}

#[test]
fn without_an_answer_no_right_is_recorded_and_the_tools_are_held_back() {
    let stage = Stage::new();
    let Some(shown) = stage.home.at_a_terminal(&stage.words(&[], "needing"), "\u{4}") else { return };
    assert!(shown.contains("nothing was recorded") && stage.records().is_empty(), "{shown}");
    write_program(&stage, "lists.py", LISTS);
    let words = ["wrap", "lists", "--", "python3", "lists.py"];
    for (answer, told) in [("\u{4}", "no answer"), ("n\n", "not agreed")] {
        let _ = fs::remove_dir_all(stage.place(".config/haft/wrap"));
        let shown = stage.home.at_a_terminal(&words, answer).unwrap();
        let held =
            format!("{told}: these tools are held back until you agree to them: `haft wrap --tools lists`");
        assert!(shown.contains(&held), "{shown}");
        let mut session = Session::new(&mut stage.command(&words));
        session.begin(&json!({}));
        session.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
        assert_eq!(session.receive()["result"]["tools"], json!([]), "{told}");
        session.end();
    }
}

#[test]
fn the_name_alone_asks_again_for_declined_rights() {
    let stage = Stage::new();
    let Some(_) = stage.home.at_a_terminal(&stage.words(&[], "needing"), "n\n") else { return };
    assert!(!stage.records()[0].contains("declined = []"), "{:?}", stage.records());
    let shown = stage.home.at_a_terminal(&["wrap", "needing"], "y\n").unwrap();
    assert!(shown.contains("grant it read=") && !shown.contains("commands are called"), "{shown}");
    assert_eq!(started(&stage, &stage.words(&[], "needing")).0["result"]["found"]["notes"], "of the person");
    let shown = stage.home.at_a_terminal(&["wrap", "needing"], "y\n").unwrap();
    assert!(shown.contains("You declined none"), "{shown}");
    // Another command of the same name.
    let other = [stage.words(&["network"], "needing"), vec!["more"]].concat();
    let (begun, _) = started(&stage, &other);
    let why = begun["error"]["message"].as_str().unwrap();
    assert!(
        why.contains("you agreed to `needing` with `") && why.contains("this client starts `"),
        "{begun}"
    );
    let shown = stage.home.at_a_terminal(&other, "y\ny\n").unwrap();
    let other_path = "; a client with another PATH may start another `python3`";
    assert!(shown.contains("agreed for `") && shown.contains(other_path), "{shown}");
    let shown = stage.home.at_a_terminal(&["wrap", "--grant", "network", "needing"], "n\nn\n").unwrap();
    assert!(shown.contains("2 commands are called `needing`; 2 of 2:"), "{shown}");
    assert_eq!(shown.matches("not granted").count(), 2, "{shown}");
}

#[test]
fn a_server_that_ends_before_it_answers_is_reported() {
    let stage = Stage::new();
    for _ in 0..2 {
        let (begun, errors) = started(&stage, &["wrap", "t", "--", "true"]);
        assert!(begun.is_null(), "{begun}");
        assert!(
            errors.contains("haft: t: the server ended with exit code 0 before it answered\n"),
            "{errors}"
        );
    }
    let Some(shown) = stage.home.at_a_terminal(&["wrap", "t", "--", "true"], "") else { return };
    assert!(shown.contains("ended with exit code 0 before it answered"), "{shown}");
}

/// haft neither reports nor proposes the script's own folder, which Python lists at its start.
#[test]
fn the_folder_of_the_script_is_neither_reported_nor_proposed() {
    let stage = Stage::new();
    let script = stage.place("other/own.py");
    fs::write(&script, LISTS).unwrap();
    let script = script.canonicalize().unwrap();
    let words = ["wrap", "own", "--", "python3", script.to_str().unwrap()];
    for _ in 0..2 {
        let (begun, errors) = started(&stage, &words);
        assert_eq!(begun["result"]["serverInfo"]["name"], "lists", "{errors}");
        assert!(!errors.contains("was refused"), "{errors}");
    }
    let declared = format!(
        "[[mcp_servers]]\nname = \"own\"\ncommand = [\"python3\", {}]\n\n[mcp_servers.grant]\n",
        json!(script.to_str().unwrap())
    );
    stage.home.write("program.toml", &declared);
    let checked = stage.home.haft(&["check"]);
    assert!(!checked.stderr.contains("was denied access"), "{}", checked.stderr);
    assert!(checked.stdout.contains("count") || checked.code == 0, "{} {}", checked.stdout, checked.stderr);
}
