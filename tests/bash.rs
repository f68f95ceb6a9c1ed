//! The tool `bash`, with real child processes.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use haft::backend::start::ENVIRONMENT;
use haft::call::ToolResult;
use haft::event::Event;
use haft::grant::{Grant, Root};
use haft::native::bash::{Bash, DEFAULT_TIMEOUT};
use haft::tool::{Tool, ToolError};
use serde_json::{Value, json};

use crate::common::wait::{eventually, eventually_some};
use crate::workspace::{Workspace, confiner};

async fn bash(workspace: &Workspace, command: &str) -> ToolResult {
    workspace.call(&Bash::new(confiner(), DEFAULT_TIMEOUT), json!({"command": command})).await.unwrap()
}

/// The result of a command that exceeds its time limit. The limit grows until the command reaches the state that
/// `has_begun` checks, so that slow machines pass too.
async fn timed_out(
    workspace: &Workspace,
    command: &str,
    has_begun: impl Fn(&ToolResult) -> bool,
) -> (u64, ToolResult) {
    for seconds in [2, 8, 32, 128] {
        let tool = Bash::new(confiner(), Duration::from_secs(seconds));
        let result = workspace.call(&tool, json!({"command": command})).await.unwrap();
        if has_begun(&result) {
            return (seconds, result);
        }
    }
    panic!("it never comes so far");
}

async fn invalid(arguments: Value) -> String {
    match Workspace::new().call(&Bash::new(confiner(), DEFAULT_TIMEOUT), arguments).await {
        Err(ToolError::InvalidArguments(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

/// TE09: `command` is required and must not be empty.
#[tokio::test]
async fn missing_command_is_required() {
    for arguments in [json!({}), json!({"command": ""}), json!({"command": " \n"}), json!({"command": null})]
    {
        assert!(invalid(arguments).await.contains("`command` is required"));
    }
}

/// TE10: the result has standard output and standard error in order; the command runs in the workspace.
#[tokio::test]
async fn both_streams_in_order_from_the_workspace() {
    let workspace = Workspace::new();
    let result = bash(&workspace, "echo one; echo two >&2; echo three; pwd; /bin/pwd; echo four >&2").await;
    let place = workspace.path("").canonicalize().unwrap();
    let place = place.display();
    assert_eq!(result, ToolResult::success(format!("one\ntwo\nthree\n{place}\n{place}\nfour\n")));
}

/// TE11: the result has the exit code; only exit code 0 is a success.
#[tokio::test]
async fn exit_codes_are_seen() {
    let workspace = Workspace::new();
    assert_eq!(bash(&workspace, "true").await, ToolResult::success("(exit code: 0)"));
    assert_eq!(bash(&workspace, "exit 3").await, ToolResult::error("(exit code: 3)"));
    assert_eq!(bash(&workspace, "printf out; exit 42").await, ToolResult::error("out\n(exit code: 42)"));
    assert_eq!(bash(&workspace, "echo out; exit 1").await, ToolResult::error("out\n(exit code: 1)"));
}

/// TE12: long output keeps its start and its end, and the result says how many characters the whole output has.
#[tokio::test]
async fn long_output_keeps_both_ends_and_counts() {
    let result = bash(&Workspace::new(), "seq 1 20000; exit 1").await;
    assert!(result.content.chars().count() <= 30_000);
    assert!(result.content.starts_with("1\n2\n3\n"));
    assert!(result.content.ends_with("\n20000\n(exit code: 1)"));
    assert!(result.content.contains("\n... (output truncated: 108894 total chars, showing first 149"));
}

/// TE24: haft truncates long output at a character boundary.
#[tokio::test]
async fn long_output_is_cut_between_characters() {
    let result = bash(&Workspace::new(), "printf 'x'; printf '🙂ж%.0s' {1..20000}").await;
    assert!(result.content.contains("40001 total chars"));
    assert!(!result.content.contains('\u{FFFD}'));
    assert!((29_900..=30_000).contains(&result.content.chars().count()));
}

#[tokio::test]
async fn invalid_utf8_is_replaced() {
    assert_eq!(bash(&Workspace::new(), r"printf 'a\xffb'").await.content, "a\u{FFFD}b");
}

/// TE13: a timeout keeps the earlier output, and the argument `timeout` sets the time limit in seconds.
#[tokio::test]
async fn a_timeout_keeps_what_was_printed() {
    let workspace = Workspace::new();
    let said = |result: &ToolResult| result.content.starts_with("so far");
    let (seconds, result) = timed_out(&workspace, "echo so far; sleep 4711", said).await;
    let expected = format!("so far\n(timed out after {seconds}s; all its processes were stopped)");
    assert_eq!(result, ToolResult::error(expected));

    let asked = json!({"command": "sleep 60", "timeout": 1});
    let result = workspace.call(&Bash::new(confiner(), DEFAULT_TIMEOUT), asked).await.unwrap();
    assert!(result.content.contains("timed out after 1s"));
}

/// TE13: the default time limit is 120 seconds; `timeout` accepts whole seconds from 1 to 600.
#[tokio::test]
async fn the_default_is_120_seconds() {
    let tool = Bash::new(confiner(), DEFAULT_TIMEOUT);
    let timeout = &tool.def().parameters["properties"]["timeout"];
    assert_eq!(timeout["description"], "Time limit in seconds; default 120");
    assert!(haft::native::bash::limits(DEFAULT_TIMEOUT).time.as_secs() > 600);
    for asked in [json!(0), json!(601), json!(1.5), json!("10")] {
        let problem = invalid(json!({"command": "true", "timeout": asked})).await;
        assert_eq!(problem, format!("`timeout`: expected whole seconds from 1 to 600, not {asked}"));
    }
}

/// Every way in which a process can detach. Each process writes a file at once, and a second file as soon as a file
/// `go` exists.
const BROOD: &str = r#"
    later() { touch "$1.begun"; until [ -e go ]; do sleep 0.01; done; touch "$1.survived"; }
    export -f later
    later child &
    setsid bash -c 'later session' &
    (setsid bash -c 'later orphan' &)
    (bash -c 'trap "" TERM HUP; later stubborn' &)
    (bash -c 'later closed' </dev/null >/dev/null 2>&1 &)
    env -i PATH="$PATH" setsid sh -c 'touch bare.begun; until [ -e go ]; do sleep 0.01; done; touch bare.survived' &
    set -m; later group & set +m
    sleep 4711
"#;
const BROOD_SIZE: usize = 7;

/// The command lines of the processes in the workspace. A process that ends during the scan is omitted, because its
/// files can no longer be read.
fn alive(workspace: &Workspace) -> Vec<String> {
    let place = workspace.path("").canonicalize().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let inside = processes.filter(|process| process.join("cwd").read_link().is_ok_and(|cwd| cwd == place));
    let lines = inside.filter_map(|process| std::fs::read(process.join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
}

async fn begun(workspace: &Workspace) {
    eventually("all have begun", || workspace.files(".begun").len() == BROOD_SIZE).await;
}

/// No process survives to write its second file after `go` exists. A slower command writes such a file first, so that
/// a survivor has had enough time.
async fn assert_none_survived(workspace: &Workspace) {
    assert_eq!(alive(workspace), [""; 0]);
    std::fs::write(workspace.path("go"), "").unwrap();
    bash(workspace, "until [ -e go ]; do sleep 0.01; done; sleep 0.5; touch this.survived").await;
    assert_eq!(workspace.files(".survived"), ["this.survived"]);
}

/// TE14: no process of a command survives its timeout.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_a_timeout() {
    let workspace = Workspace::new();
    let all_begun = |_: &ToolResult| workspace.files(".begun").len() == BROOD_SIZE;
    let (seconds, result) = timed_out(&workspace, BROOD, all_begun).await;
    assert!(result.content.contains(&format!("timed out after {seconds}s")));
    assert_none_survived(&workspace).await;
}

/// TE14: no process of a command survives the cancellation of its call.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_a_cancellation() {
    let workspace = Workspace::new();
    let cancel = async {
        begun(&workspace).await;
        workspace.cancel.cancel();
    };
    let (result, ()) = tokio::join!(bash(&workspace, BROOD), cancel);
    assert_eq!(result, ToolResult::error("(cancelled; all its processes were stopped)"));
    assert_eq!(alive(&workspace), [""; 0]);
}

/// TE14: no process of a command survives if haft drops the call, even on a runtime with a single thread.
#[tokio::test]
async fn nothing_survives_a_drop() {
    let workspace = Workspace::new();
    tokio::select! {
        result = bash(&workspace, BROOD) => panic!("{result:?}"),
        () = begun(&workspace) => {}
    }
    eventually("nothing is alive", || alive(&workspace).is_empty()).await;
    assert_none_survived(&workspace).await;
}

/// TE14: haft sends TERM before KILL, so that a command can clean up.
#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_asks_before_it_kills() {
    let workspace = Workspace::new();
    let command = "trap 'echo tidy; exit' TERM; echo ready; sleep 4711 & wait";
    let said = |result: &ToolResult| result.content.starts_with("ready\n");
    let (_, result) = timed_out(&workspace, command, said).await;
    assert!(result.content.starts_with("ready\ntidy\n(timed out"), "{}", result.content);
}

/// TE15: the call does not wait for a background process; the result has the number of stopped processes.
#[tokio::test(flavor = "multi_thread")]
async fn a_background_child_is_not_waited_for() {
    let workspace = Workspace::new();
    let result = bash(&workspace, "sleep 4711 & echo hi").await;
    let expected = "hi\n(stopped background processes: 1)";
    assert_eq!(result, ToolResult::success(expected));
}

/// TE15: background processes end with the call, with or without the output pipe open.
#[tokio::test(flavor = "multi_thread")]
async fn no_background_child_outlives_the_call() {
    let workspace = Workspace::new();
    let result = bash(&workspace, "setsid sleep 60 >/dev/null 2>&1 & (setsid sleep 60 &); echo hi").await;
    assert_eq!(result.content, "hi\n(stopped background processes: 2)");
    assert_eq!(alive(&workspace), [""; 0]);
}

/// TE15: a process that reads a pipe when the shell ends has time to write its output.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_just_after_the_end_is_seen() {
    // The grace period is short; on a busy machine the process may not run within it.
    eventually_some("what is written just after the end is seen", async || {
        let result = bash(&Workspace::new(), "echo late > >(sleep 0.02; cat)").await;
        result.content.starts_with("late\n").then_some(())
    })
    .await;
}

/// TE16: a gigabyte of output does not increase haft's memory by more than 32 MiB. The test runs itself again in a
/// process of its own for the measurement.
#[tokio::test]
async fn a_gigabyte_of_output_costs_no_memory() {
    const ALONE: &str = "bash::a_gigabyte_of_output_costs_no_memory";
    if std::env::args().any(|argument| argument == "--exact") {
        let workspace = Workspace::unheard();
        let before = peak_memory();
        let result = bash(&workspace, "yes | head -c 1G").await;
        assert!(result.content.contains("1073741824 total chars"));
        let growth = peak_memory() - before;
        assert!(growth < 32 << 10, "grew by {growth} KiB");
        return;
    }
    #[expect(clippy::disallowed_methods, reason = "the test runs itself")]
    let mut alone = tokio::process::Command::new(std::env::current_exe().unwrap());
    let output = alone.args([ALONE, "--exact", "--test-threads=1"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// The peak memory of this process, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// TE17: the standard input of a command is empty.
#[tokio::test]
async fn standard_input_is_empty() {
    let workspace = Workspace::new();
    assert_eq!(bash(&workspace, "cat; read line || echo end").await.content, "end\n");
}

/// TE18: the result names the signal that killed the command.
#[tokio::test]
async fn death_by_signal_is_told() {
    let workspace = Workspace::new();
    let result = bash(&workspace, "echo out; kill -KILL $$").await;
    assert_eq!(result, ToolResult::error("out\n(killed by signal: 9 (SIGKILL))"));
    assert!(bash(&workspace, "kill -SEGV $$").await.content.contains("signal: 11 (SIGSEGV)"));
}

/// RG06: events deliver the output while the command runs, in order.
#[tokio::test(flavor = "multi_thread")]
async fn output_is_told_live_and_in_order() {
    let workspace = Workspace::new();
    let said = || {
        let received = workspace.received.lock().unwrap();
        received.iter().map(|(_, event)| chunk(event)).collect::<String>()
    };
    let go_on = async {
        eventually("the first line is told", || said() == "one\n").await;
        std::fs::write(workspace.path("go"), "").unwrap();
    };
    let command = bash(&workspace, "echo one; until [ -e go ]; do sleep 0.01; done; echo two");
    let (result, ()) = tokio::join!(command, go_on);
    assert_eq!(said(), result.content);
    assert_eq!(result.content, "one\ntwo\n");
}

fn chunk(event: &Event) -> &str {
    match event {
        Event::Stdout { call, chunk } if call == "call-1" => chunk,
        other => panic!("{other:?}"),
    }
}

/// A command sees only the allowed and the granted variables of haft's environment.
#[tokio::test]
async fn the_environment_is_scrubbed() {
    const KNOWN: &[&str] = &["HAFT_CALL", "PATH", "PWD", "SHLVL", "TERM", "_"];
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let mut workspace = Workspace::new();
    let names = bash(&workspace, "env | cut -d= -f1; echo -n $TERM").await.content;
    let (names, term) = names.rsplit_once('\n').unwrap();
    let known = |name: &&str| KNOWN.contains(name) || ENVIRONMENT.contains(name) || name.starts_with("LC_");
    let unknown: Vec<_> = names.lines().filter(|name| !known(name)).collect();
    assert_eq!(unknown, [""; 0]);
    assert_eq!(term, "dumb");

    workspace.grant = workspace.grant.with_env("CARGO_MANIFEST_DIR");
    let granted = bash(&workspace, "echo $CARGO_MANIFEST_DIR").await.content;
    assert_eq!(granted.trim_end(), std::env::var("CARGO_MANIFEST_DIR").unwrap());
}

#[tokio::test]
async fn no_descriptors_no_terminal_no_profile() {
    let workspace = Workspace::new();
    // The fourth descriptor belongs to `ls` itself.
    let mut known = inherited();
    known.extend(0..=3);
    let numbers = bash(&workspace, "ls /proc/self/fd").await.content;
    let leaked: Vec<_> = numbers.lines().filter(|number| !known.contains(&number.parse().unwrap())).collect();
    assert_eq!(leaked, [""; 0]);
    assert!(bash(&workspace, ": </dev/tty").await.content.contains("/dev/tty"));
    assert_eq!(bash(&workspace, "shopt login_shell; echo $-").await.content, "login_shell    \toff\nhBc\n");
}

/// Descriptors that this process inherited and passes on to its children.
fn inherited() -> BTreeSet<i32> {
    let entries = std::fs::read_dir("/proc/self/fdinfo").unwrap().map(|entry| entry.unwrap());
    let is_inherited = |info: &str| {
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        i32::from_str_radix(flags.trim(), 8).unwrap() & 0o2_000_000 == 0
    };
    let inherited =
        entries.filter(|entry| std::fs::read_to_string(entry.path()).is_ok_and(|info| is_inherited(&info)));
    inherited.map(|entry| entry.file_name().to_str().unwrap().parse().unwrap()).collect()
}

#[tokio::test]
async fn a_command_may_begin_with_a_dash() {
    let result = bash(&Workspace::new(), "-x; echo $?").await;
    assert!(result.content.ends_with("-x: command not found\n127\n"), "{}", result.content);
}

/// haft runs a command that is longer than Linux accepts as one argument; the limit is 1048576 bytes.
#[tokio::test]
async fn a_long_command_runs_too() {
    let text = "ж".repeat(100_000);
    let result =
        bash(&Workspace::new(), &format!("wc -m <<'END'\n{text}\nEND\ncat; export LC_ALL=C.UTF-8; exit 7"))
            .await;
    assert!(result.content.ends_with("\n(exit code: 7)"), "{}", result.content);
    let text = "x".repeat(200_000);
    assert_eq!(bash(&Workspace::new(), &format!("printf %s {text} | wc -c; cat")).await.content, "200000\n");
    assert!(invalid(json!({"command": "x".repeat((1 << 20) + 1)})).await.contains("the limit is 1048576"));
    assert!(invalid(json!({"command": "a\0b"})).await.contains("NUL"));
}

#[tokio::test]
async fn a_workspace_that_cannot_be_opened_is_named() {
    let mut workspace = Workspace::new();
    let gone = Root::resolve(Path::new("/"), &workspace.path("gone")).unwrap();
    workspace.grant = Grant::none().with_write(gone.clone()).with_workspace(gone);
    let error = workspace
        .call(&Bash::new(confiner(), DEFAULT_TIMEOUT), json!({"command": "true"}))
        .await
        .unwrap_err();
    let expected = format!("Tool error: cannot open the workspace `{}`: ", workspace.path("gone").display());
    assert!(error.to_string().starts_with(&expected), "{error}");

    workspace.grant = Grant::none();
    let error = workspace
        .call(&Bash::new(confiner(), DEFAULT_TIMEOUT), json!({"command": "true"}))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no directory to run in: the grant has no workspace"), "{error}");
}
