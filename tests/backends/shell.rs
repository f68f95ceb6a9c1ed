//! `run_shell`: its answers on every backend.

use haft::backend::{BackendConfig, BackendError};
use haft::event::{Event, Events};
use serde_json::json;
use std::sync::{Arc, Mutex};

use super::host_context::{Bed, Kind, all, local, session, ssh_to, unusual, wake};
use crate::cli::Home;
use crate::common::HANG;
use crate::common::wait::eventually;

/// RS01, RS02: an answer has exit code and streams on every backend; a non-zero exit code is not an error of the
/// call.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_the_same_everywhere() {
    for kind in all() {
        let bed = Bed::new(&kind).await;
        let result =
            bed.call("run_shell", json!({ "command": "echo out; echo err >&2; exit 42" })).await.unwrap();
        assert_eq!(result.content, "exit code: 42\nstdout:\nout\nstderr:\nerr\n", "{}", kind.name);
        assert!(!result.is_error);
        let long = bed.call("run_shell", json!({ "command": "seq 5000" })).await.unwrap().content;
        assert!(
            long.starts_with("exit code: 0\nstdout:\n1\n2\n") && long.contains("...[truncated]"),
            "{long}"
        );
        assert!(long.contains("\n5000\n") && long.chars().count() < 4200);
        bed.backend.close().await;
    }
}

/// BE04: the greeting of the target's shell is neither in a command's output nor in a file.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_greets_is_not_quoted() {
    let Some(choice) = ssh_to("greeter") else { return };
    for tmux in [false, true] {
        let session = tmux.then(session);
        let choice = BackendConfig { tmux: Some(tmux), session, ..choice.clone() };
        let bed = Bed::new(&Kind { name: "ssh, greeted", choice }).await;
        let result = bed.call("run_shell", json!({ "command": "echo out; echo err >&2" })).await.unwrap();
        assert_eq!(result.content, "exit code: 0\nstdout:\nout\nstderr:\nerr\n");
        let path = bed.work().join("file").to_str().unwrap().to_owned();
        bed.call("write_file", json!({ "path": path, "content": "text" })).await.unwrap();
        assert_eq!(bed.call("read_file", json!({ "path": path })).await.unwrap().content, "text");
        bed.backend.close().await;
    }
}

/// RS03, RS04, RS05: `wait` is kept to; an invalid `wait`, and `false` without a pane, are refused.
#[tokio::test(flavor = "multi_thread")]
async fn waits_are_kept_or_refused() {
    for kind in all() {
        let bed = Bed::new(&kind).await;
        let late = bed.call("run_shell", json!({ "command": "sleep 20", "wait": "500ms" })).await.unwrap();
        assert!(late.is_error && late.content.starts_with("timed out waiting for "), "{}", late.content);
        assert!(late.content.contains("command completion after 500ms"), "{}", late.content);
        let odd = bed
            .call("run_shell", json!({ "command": "true", "wait": "soon" }))
            .await
            .unwrap_err()
            .to_string();
        assert!(odd.contains("invalid wait duration; use forms like 30s, 10m, 1h, 500ms"), "{odd}");
        let none = bed.call("run_shell", json!({ "command": " " })).await.unwrap_err().to_string();
        assert!(none.contains("`command` is required"), "{none}");
        if !bed.backend.has_pane() {
            let refused =
                bed.call("run_shell", json!({ "command": "true", "wait": false })).await.unwrap_err();
            assert!(refused.to_string().contains("requires a tmux-backed target"), "{refused}");
        }
        bed.backend.close().await;
    }
}

/// RS01: the output of a command is reported during the command, per stream.
#[tokio::test(flavor = "multi_thread")]
async fn output_is_told_while_the_command_runs() {
    for kind in all() {
        let (mut bed, time) = (Bed::new(&kind).await, unusual());
        let told = Arc::new(Mutex::new([String::new(), String::new()]));
        let sink = told.clone();
        bed.events = Events::to(move |event| {
            let [output, errors] = &mut *sink.lock().unwrap();
            match event {
                Event::Stdout { chunk, .. } => output.push_str(chunk),
                Event::Stderr { chunk, .. } => errors.push_str(chunk),
                _ => {}
            }
        });
        let command = format!("echo first; sleep {time}; echo second >&2; sleep {time}");
        let heard = async {
            eventually(kind.name, || told.lock().unwrap()[0].contains("first")).await;
            wake(&time).await;
            eventually(kind.name, || told.lock().unwrap()[1].contains("second")).await;
            wake(&time).await;
        };
        tokio::join!(bed.call("run_shell", json!({ "command": command, "wait": "1h" })), heard).0.unwrap();
        bed.backend.close().await;
    }
}

/// MK02: a command of 90 KB runs; a command above the limit is refused with the way out.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_may_be_long_and_not_too_long() {
    for kind in all() {
        let bed = Bed::new(&kind).await;
        let long = format!("printf %s '{}' | wc -c", "x".repeat(90_000));
        assert_eq!(String::from_utf8_lossy(&bed.run(&long).await.output).trim(), "90000", "{}", kind.name);
        let longer = "#".repeat(100_001);
        let refused = bed.call("run_shell", json!({ "command": longer })).await.unwrap_err().to_string();
        assert!(refused.contains("write data to a file first with `write_file`"), "{refused}");
        bed.backend.close().await;
    }
}

/// MK02: commands start in `directory` of `[backend]`; the error for a missing directory names this key.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_not_there_is_named() {
    let Some(kind) = super::host_context::container() else { return };
    let choice = BackendConfig { directory: Some("/tmp".into()), ..kind.choice.clone() };
    let bed = Bed::new(&Kind { name: kind.name, choice }).await;
    assert_eq!(bed.run("pwd").await.output, b"/tmp\n");
    let choice = BackendConfig { directory: Some("/none".into()), ..kind.choice };
    let bed = Bed::new(&Kind { name: kind.name, choice }).await;
    let refused = bed.run_within("pwd", HANG).await.unwrap_err();
    assert!(
        matches!(&refused, BackendError::Target(why) if why.contains("; it is `directory` in `[backend]`")),
        "{refused}"
    );
}

/// RS06, RS07, RS08: `shell_deny` refuses before a question; `shell_confirm` asks before the command runs; without a
/// user the command does not run.
#[test]
fn a_command_is_denied_asked_for_and_then_run() {
    let home = Home::new();
    home.write(
        "program.toml",
        "[backend]\ntarget_tools = true\n[builtins]\nshell_confirm = true\nshell_deny = [\"git push*\"]\n",
    );
    let denied = home.call("run_shell", &json!({ "command": "sudo git push --force" }));
    assert!(denied.stderr.contains("command blocked by shell_deny pattern `git push*`"), "{}", denied.stderr);
    assert!(!denied.stderr.contains("approval"), "{}", denied.stderr);
    let here = Home::new();
    here.write("program.toml", "[builtins]\nshell_deny = [\"git push*\"]\n");
    let denied = here.call("bash", &json!({ "command": "cd . && git push" }));
    assert!(denied.stderr.contains("command blocked by shell_deny pattern `git push*`"), "{}", denied.stderr);
    let unasked = home.call("run_shell", &json!({ "command": "echo ran" }));
    assert_eq!(unasked.code, 1);
    assert!(
        unasked.stderr.contains("`run_shell` did not run: it needs a person's approval"),
        "{}",
        unasked.stderr
    );
    let arguments = json!({ "command": "echo 47\"\"11" }).to_string();
    for (typed, is_run) in [("y\n", true), ("n\n", false)] {
        let Some(said) = home.at_a_terminal(&["call", "run_shell", &arguments], typed) else { return };
        assert!(said.contains("  Run: echo 47\"\"11 [y/N] "), "{said}");
        assert_eq!(said.contains("exit code: 0"), is_run, "{said}");
        assert_eq!(said.contains("Command execution denied by user."), !is_run, "{said}");
    }
}

/// TM01, RG04: the backend selects the family of tools, and `[builtins]` disables any of them.
#[test]
fn the_family_of_tools_follows_the_backend() {
    let home = Home::new();
    let names = |home: &Home| {
        let tools: Vec<serde_json::Value> =
            serde_json::from_str(&home.haft(&["tools", "--json"]).stdout).unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    home.write("program.toml", "[backend]\ntarget_tools = true\n");
    assert_eq!(names(&home)[..3], ["run_shell", "read_file", "write_file"]);
    assert!(
        !names(&home).iter().any(|name| matches!(name.as_str(), "bash" | "read" | "edit" | "capture-pane"))
    );
    home.write("program.toml", "[backend]\ntarget_tools = true\n[builtins]\nshell = false\nfiles = false\n");
    assert_eq!(names(&home), ["time", "fetch_url", "web_search"]);
}

/// BE01, T01: a command on a local backend without a pane is in the sandbox.
#[tokio::test(flavor = "multi_thread")]
async fn a_local_command_is_in_the_sandbox() {
    let bed = Bed::new(&local()).await;
    let elsewhere = crate::common::outside();
    let outside = elsewhere.path().join("written-by-a-command");
    let done = bed.run(&format!("touch {}", outside.display())).await;
    assert!(done.how != haft::backend::CommandEnd::Exited(0) && !outside.exists(), "{done:?}");
    assert!(bed.backend.confinement().contains("confined by"), "{}", bed.backend.confinement());
}
