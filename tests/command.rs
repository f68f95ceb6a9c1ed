//! Command tools, with real programs.

use std::time::Duration;

use haft::event::Event;
use haft::grant::RightsTable;
use haft::manifest::{Argument, ArgumentType, ProcessLimits};
use haft::native::command::{CommandError, CommandSpec, CommandTool};
use haft::tool::{Tool, ToolError};
use serde_json::{Value, json};

use crate::common::wait::eventually;
use crate::workspace::{Workspace, confiner};

fn spec(command: &[&str]) -> CommandSpec {
    CommandSpec {
        program: "github".into(),
        tool: "create_pr".into(),
        description: "Create a pull request".into(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        folder: "/".into(),
        arguments: Vec::new(),
        extra_args: true,
        required: Vec::new(),
        optional: Vec::new(),
        timeout: Duration::from_mins(1),
        limits: ProcessLimits::default(),
        table: RightsTable::Sandbox,
    }
}

fn argument(name: &str, flag: Option<&str>, default: Option<Value>) -> Argument {
    let flag = flag.map(str::to_owned);
    let kind = match &default {
        Some(Value::Bool(_)) => ArgumentType::Boolean,
        Some(Value::Number(_)) => ArgumentType::Integer,
        Some(Value::Array(_)) => ArgumentType::Array,
        _ => ArgumentType::String,
    };
    let (name, description) = (name.parse().unwrap(), format!("the {name}"));
    Argument { name, description, kind, required: true, default, flag }
}

async fn content(spec: CommandSpec, arguments: Value) -> String {
    Workspace::new().call(&CommandTool::new(confiner(), spec).unwrap(), arguments).await.unwrap().content
}

/// Prints each argument on its own line.
const LINES: [&str; 2] = ["printf", "<%s>\n"];

/// PR02: the tool's name contains the program's name and the command's name.
#[test]
fn the_name_says_program_and_tool() {
    let tool = CommandTool::new(confiner(), spec(&["gh", "pr", "create"])).unwrap();
    assert_eq!(tool.def().name, "program__github__create_pr");
    assert_eq!(tool.def().description, "Create a pull request");
    assert!(tool.def().hints.destructive && !tool.def().hints.read_only);
}

/// PR03: the words of the command precede the call's arguments.
#[tokio::test]
async fn the_command_s_own_words_come_first() {
    assert_eq!(
        content(spec(&["echo", "pr", "--all", "a b"]), json!({"args": ["x"]})).await,
        "pr --all a b x\n"
    );
    assert_eq!(content(spec(&["echo"]), json!({})).await, "\n");
}

/// PR04: declared arguments reach the program with their flags; a missing required argument is an error.
#[tokio::test]
async fn declared_arguments_reach_the_program() {
    let mut spec = spec(&LINES);
    spec.arguments = vec![
        argument("title", Some("--title"), None),
        argument("draft", Some("--draft"), Some(json!(false))),
        argument("label", Some("-l"), Some(json!([]))),
        argument("path", None, Some(json!("."))),
    ];
    let arguments = json!({"title": "two words", "draft": true, "label": ["a", "b"], "args": ["last"]});
    let expected = "<--title>\n<two words>\n<--draft>\n<-l>\n<a>\n<-l>\n<b>\n<.>\n<last>\n";
    assert_eq!(content(spec.clone(), arguments).await, expected);
    let missing =
        Workspace::new().call(&CommandTool::new(confiner(), spec).unwrap(), json!({})).await.unwrap_err();
    assert_eq!(missing, ToolError::InvalidArguments("`title` is required".into()));
}

/// PR05: no shell expands the arguments.
#[tokio::test]
async fn nothing_is_expanded_by_a_shell() {
    let words = ["$(id)", "; echo no", "`id`", "*", "a  b", "$HOME", "новая\nстрока", "", "--version"];
    let expected = format!("<{}>\n", words.join(">\n<"));
    assert_eq!(content(spec(&LINES), json!({"args": words})).await, expected);
}

/// PR05: the first word of a command must be a bare program name.
#[test]
fn only_a_bare_name_is_a_command() {
    let error = |words: &[&str]| CommandTool::new(confiner(), spec(words)).unwrap_err();
    assert_eq!(error(&[]), CommandError::Empty);
    assert_eq!(error(&["", "x"]), CommandError::Empty);
    assert_eq!(error(&["/usr/bin/env"]), CommandError::NotABareName("/usr/bin/env".into()));
    // T03: a path outside of the program's folder is refused too.
    for outside in ["./../tool", "./bin/../../tool", "../tool", "bin/tool", "./.."] {
        assert_eq!(error(&[outside]), CommandError::NotABareName(outside.into()));
    }
    let mut twice = spec(&["echo"]);
    twice.arguments = vec![argument("a", None, None), argument("a", None, None)];
    assert_eq!(CommandTool::new(confiner(), twice).unwrap_err(), CommandError::DuplicateArgument("a".into()));
}

/// PR05: a command has a scrubbed environment and runs in the workspace.
#[tokio::test]
async fn the_environment_is_scrubbed_and_the_workspace_is_the_directory() {
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let names = content(spec(&["env"]), json!({})).await;
    assert!(names.contains("\nPATH=") || names.starts_with("PATH="));
    assert!(!names.contains("CARGO_"), "{names}");

    let workspace = Workspace::new();
    let result =
        workspace.call(&CommandTool::new(confiner(), spec(&["pwd"])).unwrap(), json!({})).await.unwrap();
    assert_eq!(result.content.trim_end(), workspace.path("").canonicalize().unwrap().to_str().unwrap());
}

/// PR06: if required programs are missing, the error names all of them, and the command does not run.
#[tokio::test]
async fn everything_missing_is_named_and_nothing_runs() {
    let mut spec = spec(&["haft-has-no-such-program"]);
    spec.required = vec!["sh".into(), "haft-nor-this".into(), "haft-has-no-such-program".into()];
    spec.optional = vec!["sh".into(), "haft-nor-that".into()];
    let tool = CommandTool::new(confiner(), spec.clone()).unwrap();
    let expected = "Create a pull request\nOptional programs: `sh` available, `haft-nor-that` not available";
    assert_eq!(tool.def().description, expected);
    let error = Workspace::new().call(&tool, json!({})).await.unwrap_err().to_string();
    let expected = "the program `github` requires programs that are not on PATH: `haft-has-no-such-program`, \
         `haft-nor-this`; ";
    assert!(error.contains(expected), "{error}");

    spec.command = ["touch", "ran"].map(str::to_owned).to_vec();
    spec.required.truncate(2);
    let workspace = Workspace::new();
    let error = workspace
        .call(&CommandTool::new(confiner(), spec).unwrap(), json!({}))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("not on PATH: `haft-nor-this`;"), "{error}");
    assert!(!workspace.path("ran").exists());
}

#[tokio::test]
async fn a_failure_shows_both_streams_and_the_code() {
    let workspace = Workspace::new();
    let tool = CommandTool::new(confiner(), spec(&["sh", "-c", "echo bad >&2; echo good; exit 3"])).unwrap();
    let result = workspace.call(&tool, json!({})).await.unwrap();
    assert_eq!(result.content, "good\nbad\n(exit code: 3)");
    assert!(result.is_error);
    assert_eq!(content(spec(&["true"]), json!({})).await, "(exit code: 0)");
}

#[tokio::test]
async fn long_output_is_bounded() {
    let result = content(spec(&["seq", "100000"]), json!({})).await;
    assert!(result.chars().count() <= 30_000 && result.ends_with("\n100000\n"));
    assert!(result.contains("output truncated: 588895 total chars, showing first "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_is_told() {
    let mut spec = spec(&["sh", "-c", "echo begun; sleep 60"]);
    spec.timeout = Duration::from_secs(1);
    assert!(content(spec, json!({})).await.starts_with("begun\n(timed out after 1s;"));
}

/// RG06: events deliver each output stream under its own name, in order.
#[tokio::test(flavor = "multi_thread")]
async fn each_stream_is_told_as_itself() {
    let workspace = Workspace::new();
    let script = "heard() { until test -e $1; do sleep 0.01; done; }
                  echo one; heard one; echo two >&2; heard two; echo three";
    let tool = CommandTool::new(confiner(), spec(&["sh", "-c", script])).unwrap();
    let hears = async {
        for (number, name) in (1..).zip(["one", "two"]) {
            eventually(name, || workspace.received.lock().unwrap().len() >= number).await;
            std::fs::write(workspace.path(name), "").unwrap();
        }
    };
    tokio::join!(workspace.call(&tool, json!({})), hears).0.unwrap();
    let received = workspace.received.lock().unwrap();
    let report: Vec<_> = received.iter().map(|(_, event)| report(event)).collect();
    assert_eq!(report, ["out one", "err two", "out three"]);
}

fn report(event: &Event) -> String {
    match event {
        Event::Stdout { chunk, .. } => format!("out {}", chunk.trim_end()),
        Event::Stderr { chunk, .. } => format!("err {}", chunk.trim_end()),
        other => panic!("{other:?}"),
    }
}

/// SB10: a command tool of program.toml has only the grant that `bash` has.
#[tokio::test]
async fn a_command_is_confined() {
    let workspace = Workspace::new();
    let outside = tempfile::tempdir().unwrap();
    let files = [workspace.path("inside"), outside.path().join("outside")];
    let words = ["touch", files[0].to_str().unwrap(), files[1].to_str().unwrap()];
    let result =
        workspace.call(&CommandTool::new(confiner(), spec(&words)).unwrap(), json!({})).await.unwrap();
    assert!(result.is_error && result.content.contains("Read-only file system"), "{result:?}");
    assert_eq!(files.map(|file| file.exists()), [true, false]);
}
