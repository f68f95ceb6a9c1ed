use std::sync::{Arc, Mutex};

use super::*;
use crate::call::ToolCall;
use crate::event::{Event, Events};
use crate::grant::Grant;
use crate::limit::Limits;
use crate::tool::budget::tests::{Named, toolbox};
use crate::tool::{Session, Toolbox};

fn program(arguments: Value) -> ToolCall {
    ToolCall { id: "1".into(), tool: "program".into(), arguments }
}

async fn answer(toolbox: &Toolbox, arguments: Value) -> String {
    toolbox.dispatch(program(arguments), &Session::default()).await.content
}

fn commands() -> Toolbox {
    let mut toolbox = toolbox(&["read", "program__git__log", "jira__close", "github__close"]);
    toolbox.alias("program:git:log", "program__git__log");
    let parameters = json!({
        "type": "object", "properties": { "args": { "type": "array", "items": { "type": "string" } } }
    });
    let def = ToolDef { name: "program__git__show".into(), parameters, ..ToolDef::default() };
    toolbox.insert(Arc::new(Named(def)), Grant::none(), Limits::default(), "the test").unwrap();
    toolbox
}

/// PR14: any tool by its name, its alias or, where it is the only one, its own short name.
#[tokio::test]
async fn pr14_program_runs_any_tool_by_name() {
    let toolbox = commands();
    for (name, meant) in [
        ("read", "read"),
        ("READ", "read"),
        ("program__git__log", "program__git__log"),
        ("program:git:log", "program__git__log"),
        ("log", "program__git__log"),
        ("git__log", "program__git__log"),
    ] {
        let said = answer(&toolbox, json!({ "name": name, "args": { "path": "x" } })).await;
        assert_eq!(said, format!(r#"{meant} {{"path":"x"}}"#), "{name}");
    }
    let said = answer(&toolbox, json!({ "name": "close" })).await;
    assert_eq!(said, "invalid arguments: 2 tools could be meant by `close`: `jira__close`, `github__close`");
    assert_eq!(answer(&toolbox, json!({ "name": "pen" })).await, "Unknown tool: pen");
    assert_eq!(answer(&toolbox, json!({ "name": "raed" })).await, "Unknown tool: raed; did you mean `read`?");
}

/// PR14: arguments are checked like those of any call; `args` may be missing, JSON as text or, for a
/// command, the words themselves.
#[tokio::test]
async fn pr14_the_arguments_are_those_of_the_tool() {
    let toolbox = commands();
    for (args, meant) in [
        (json!(null), "read {}"),
        (json!(""), "read {}"),
        (json!("{\"path\": \"x\"}"), r#"read {"path":"x"}"#),
    ] {
        assert_eq!(answer(&toolbox, json!({ "name": "read", "args": args })).await, meant);
    }
    assert_eq!(
        answer(&toolbox, json!({ "name": "show", "args": ["-1", "a b"] })).await,
        r#"program__git__show {"args":["-1","a b"]}"#
    );
    assert_eq!(
        answer(&toolbox, json!({ "name": "read", "args": { "path": 1 } })).await,
        "invalid arguments: at `/path`: 1 is not of type \"string\""
    );
    for (wrong, why) in [
        (json!({}), "`name` is required"),
        (json!({ "name": " " }), "`name` is required"),
        (json!({ "name": "read", "path": "x" }), "`path` is not allowed beside `name` and `args`"),
        (json!({ "name": "read", "args": ["x"] }), "`args` must be an object"),
        (json!({ "name": "read", "args": "x" }), "`args` must be an object"),
        (json!({ "name": "read", "args": 1 }), "`args` must be an object"),
    ] {
        let said = answer(&toolbox, wrong.clone()).await;
        assert!(said.starts_with("invalid arguments: ") && said.contains(why), "{wrong}: {said}");
    }
}

/// PR14: the tool that runs is the one that is told of.
#[tokio::test]
async fn pr14_events_name_the_tool_that_runs() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = received.clone();
    let events = Events::to(move |event| {
        if let Event::Started(call) | Event::Completed { call, .. } = event {
            sink.lock().unwrap().push(format!("{} {}", call.tool, call.arguments));
        }
    });
    let session = Session { events, ..Session::default() };
    commands().dispatch(program(json!({ "name": "log", "args": { "path": "x" } })), &session).await;
    let call = r#"program__git__log {"path":"x"}"#;
    assert_eq!(*received.lock().unwrap(), [call, call]);
}

#[tokio::test]
async fn program_does_not_run_itself() {
    let itself = json!({ "name": "Program", "args": { "name": "read" } });
    let said = answer(&commands(), itself).await;
    assert!(said.starts_with("invalid arguments: `program` does not run itself"), "{said}");
}

#[test]
fn a_tool_of_this_name_is_the_one_that_is_meant() {
    let toolbox = toolbox(&["program"]);
    assert!(toolbox.meant(&program(json!({ "path": "x" }))).unwrap().is_none());
}
