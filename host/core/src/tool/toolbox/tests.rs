use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::event::{Event, Events};
use crate::grant::Root;
use crate::tool::{Context, Preparation, ToolError};

/// Answers with its arguments, or fails if they request it.
struct Echo(ToolDef);

#[async_trait::async_trait]
impl Tool for Echo {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        match call.arguments.get("text").and_then(Value::as_str) {
            Some("fail") => Err(ToolError::ExecutionFailed("no".into())),
            Some("panic") => panic!("on purpose"),
            Some("wait") => std::future::pending().await,
            Some("obey") => {
                context.cancel.cancelled().await;
                Ok(ToolResult::success("stopped"))
            }
            Some("grant") => Ok(ToolResult::success(format!("{:?}", context.grant.writable().roots()))),
            text => Ok(ToolResult::success(text.unwrap_or_default())),
        }
    }
}

fn echo(name: &str) -> Arc<dyn Tool> {
    let parameters = json!({
        "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"]
    });
    Arc::new(Echo(ToolDef { name: name.into(), parameters, ..ToolDef::default() }))
}

fn toolbox(names: &[&str]) -> Toolbox {
    let mut toolbox = Toolbox::default();
    for name in names {
        toolbox.insert(echo(name), Grant::none(), Limits::default(), "the test").unwrap();
    }
    toolbox
}

fn call(tool: &str, text: &str) -> ToolCall {
    ToolCall { id: "1".into(), tool: tool.into(), arguments: json!({ "text": text }) }
}

async fn answer(toolbox: &Toolbox, tool: &str, text: &str) -> ToolResult {
    toolbox.dispatch(call(tool, text), &Session::default()).await
}

fn names(toolbox: &Toolbox) -> Vec<&str> {
    toolbox.defs().into_iter().map(|def| def.name.as_str()).collect()
}

/// RG01, TE06: definitions keep their order; a name is taken once, and the error names both places.
#[test]
fn order_is_kept_and_names_are_unique() {
    let mut toolbox = toolbox(&["b", "a", "c"]);
    assert_eq!(names(&toolbox), ["b", "a", "c"]);
    let error = toolbox.insert(echo("a"), Grant::none(), Limits::default(), "elsewhere").unwrap_err();
    assert_eq!(error.to_string(), "two tools have the name `a`: one from the test, one from elsewhere");
}

/// RG01, TE03: a tool is found by its name or alias, without regard to case.
#[tokio::test]
async fn names_are_found_without_regard_to_case() {
    let mut toolbox = toolbox(&["bash", "program__gh__pr"]);
    toolbox.alias("program:gh:pr", "program__gh__pr");
    for name in ["bash", "Bash", "BASH", "program:gh:pr"] {
        assert_eq!(answer(&toolbox, name, "hi").await, ToolResult::success("hi"), "{name}");
    }
}

/// TE04: an unknown name is an answer, with the nearest name.
#[tokio::test]
async fn an_unknown_tool_is_an_answer() {
    let toolbox = toolbox(&["read", "write"]);
    assert_eq!(answer(&toolbox, "raed", "").await.content, "Unknown tool: raed; did you mean `read`?");
    assert_eq!(answer(&toolbox, "zzz", "").await, ToolResult::error("Unknown tool: zzz"));
}

/// G10: characters that models add around a name are ignored; a tool with the exact name takes
/// precedence.
#[tokio::test]
async fn a_name_is_found_in_what_a_model_wrote_around_it() {
    let mut toolbox = toolbox(&["bash", "program__gh__pr", "functions.odd"]);
    toolbox.alias("program:gh:pr", "program__gh__pr");
    let around =
        ["functions.bash", "functions:Bash", "default_api.bash", "tools/bash", "bash<|channel|>json"];
    for name in around.into_iter().chain(["functions.program:gh:pr", "functions.odd"]) {
        assert_eq!(answer(&toolbox, name, "hi").await, ToolResult::success("hi"), "{name}");
    }
    for name in ["functions.", "other.bash", "<|bash"] {
        assert!(answer(&toolbox, name, "hi").await.is_error, "{name}");
    }
}

/// RG02: arguments that the schema refuses never reach the tool.
#[tokio::test]
async fn wrong_arguments_are_an_answer() {
    let call = ToolCall { arguments: json!({ "text": 1 }), ..call("read", "") };
    let result = toolbox(&["read"]).dispatch(call, &Session::default()).await;
    assert_eq!(result, ToolResult::error("invalid arguments: at `/text`: 1 is not of type \"string\""));
}

/// RG03: a tool's failure, and even its panic, is an answer.
#[tokio::test]
async fn failures_are_answers() {
    let toolbox = toolbox(&["read"]);
    assert_eq!(answer(&toolbox, "read", "fail").await, ToolResult::error("Tool error: no"));
    assert!(answer(&toolbox, "read", "panic").await.content.contains("panicked"));
    assert_eq!(answer(&toolbox, "read", "next").await, ToolResult::success("next"));
}

/// TE08: a tool outside the selection is neither listed nor callable.
#[tokio::test]
async fn only_selected_tools_are_listed_and_callable() {
    let toolbox = toolbox(&["read", "bash", "mcp__git__log", "mcp__git__show"]);
    let select = |patterns: &[&str]| {
        let patterns: Vec<ToolPattern> = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        toolbox.select(&patterns, None)
    };
    assert!(names(&select(&[])).is_empty());
    assert_eq!(names(&select(&["read"])), ["read"]);
    assert_eq!(answer(&select(&["read"]), "bash", "x").await.content, "Unknown tool: bash");
    assert_eq!(names(&select(&["mcp__*"])), ["mcp__git__log", "mcp__git__show"]);
    assert_eq!(names(&select(&["*s*"])), ["bash", "mcp__git__show"]);
    assert_eq!(names(&select(&["*"])).len(), 4);
}

#[tokio::test]
async fn a_selection_only_narrows() {
    let root = |path: &str| Root::resolve(std::path::Path::new("/"), std::path::Path::new(path)).unwrap();
    let mut toolbox = Toolbox::default();
    let grant = Grant::none().with_write(root("/nowhere"));
    toolbox.insert(echo("read"), grant, Limits::default(), "the test").unwrap();
    let narrowed =
        toolbox.select(&["*".parse().unwrap()], Some(&Grant::none().with_write(root("/nowhere/in"))));
    assert!(answer(&narrowed, "read", "grant").await.content.contains("/nowhere/in"));
}

#[tokio::test]
async fn a_call_ends_at_its_deadline() {
    let mut toolbox = Toolbox::default();
    let limits = Limits { time: Duration::from_secs(1), ..Limits::default() };
    toolbox.insert(echo("read"), Grant::none(), limits, "the test").unwrap();
    assert_eq!(
        answer(&toolbox, "read", "wait").await.content,
        "Tool error (haft): `read` timed out after 1s"
    );
}

/// A tool that panics during its preparation.
struct Unready(Arc<dyn Tool>);

#[async_trait::async_trait]
impl Tool for Unready {
    fn def(&self) -> &ToolDef {
        self.0.def()
    }

    fn preparation(&self) -> Option<Preparation<'_>> {
        Some(Box::pin(async { panic!("for the test") }))
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        self.0.call(call, context).await
    }
}

#[tokio::test]
async fn a_tool_that_panics_while_it_gets_ready_is_answered_for() {
    let mut toolbox = Toolbox::default();
    let tool = Arc::new(Unready(echo("read")));
    toolbox.insert(tool, Grant::none(), Limits::default(), "the test").unwrap();
    let content = answer(&toolbox, "read", "x").await.content;
    assert_eq!(content, "Tool error (haft): the tool panicked; this is a bug in haft");
}

#[tokio::test]
async fn a_cancelled_tool_may_answer_and_is_dropped_if_it_does_not() {
    let toolbox = toolbox(&["read"]);
    let session = Session::default();
    session.cancel.cancel();
    assert_eq!(toolbox.dispatch(call("read", "obey"), &session).await.content, "stopped");
    assert_eq!(
        toolbox.dispatch(call("read", "wait"), &session).await.content,
        "Tool error (haft): `read` was cancelled"
    );
}

#[tokio::test]
async fn a_call_is_told_from_start_to_end() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let events = Events::to(move |event| {
        sink.lock().unwrap().push(match event {
            Event::Started(call) => format!("started {}", call.tool),
            Event::Running { call } => format!("running {call}"),
            Event::Completed { result, .. } => format!("completed {}", result.content),
            other => format!("{other:?}"),
        });
    });
    let session = Session { events, ..Session::default() };
    toolbox(&["read"]).dispatch(call("read", "hi"), &session).await;
    assert_eq!(*seen.lock().unwrap(), ["started read", "running 1", "completed hi"]);
}
