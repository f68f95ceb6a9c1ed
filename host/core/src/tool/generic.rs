//! The generic tool `program`, which calls any other tool by its name: another way to write a call. The named tool
//! is found, checked, limited and recorded under its own name, with its own rights. `program` refuses to call
//! itself.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::entry::Entry;
use crate::call::{Hints, ToolDef};

pub(super) const NAME: &str = "program";

pub(super) const ORIGIN: &str = "built in";

/// The definition for models.
pub(super) static DEF: LazyLock<ToolDef> = LazyLock::new(|| {
    let parameters = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "The tool's name" },
            "args": { "type": "object", "description": "Its arguments, as its own schema requires" },
        },
        "required": ["name"],
        "additionalProperties": false,
    });
    // The effects are those of the called tool.
    let hints = Hints { destructive: true, open_world: true, ..Hints::default() };
    let description = "Runs any tool by its name, including tools that are not listed here.".into();
    ToolDef { name: NAME.into(), description, parameters, hints, ..ToolDef::default() }
});

/// Returns the name and the arguments in a call of `program`, unmodified.
pub(super) fn name_and_arguments(arguments: &Value) -> Result<(&str, &Value), String> {
    let name = arguments.get("name").and_then(Value::as_str).map(str::trim).unwrap_or_default();
    if name.is_empty() {
        return Err("`name` is required: the name of a tool".into());
    }
    let stranger = |key: &&String| !matches!(key.as_str(), "name" | "args");
    match arguments.as_object().and_then(|object| object.keys().find(stranger)) {
        Some(key) => Err(format!("`{key}` is not allowed beside `name` and `args`; write it in `args`")),
        None => Ok((name, arguments.get("args").unwrap_or(&Value::Null))),
    }
}

/// Returns the arguments for `entry`: an object, which models also write as JSON text, or the words for a tool that
/// takes further words as `args`.
pub(super) fn arguments_for(arguments: &Value, entry: Option<&Entry>) -> Result<Value, String> {
    let takes_words =
        || entry.is_some_and(|entry| entry.def().parameters.pointer("/properties/args").is_some());
    match arguments {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(arguments.clone()),
        Value::String(text) if text.trim().is_empty() => Ok(Value::Object(Map::new())),
        Value::String(text) => match crate::json::read(text.as_bytes()) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => arguments_for(&value, entry),
            _ => Err(NO_OBJECT.into()),
        },
        Value::Array(_) if takes_words() => Ok(json!({ "args": arguments })),
        _ => Err(NO_OBJECT.into()),
    }
}

const NO_OBJECT: &str =
    "`args` must be an object with the arguments of the tool, such as `{\"path\": \"x\"}`";

#[cfg(test)]
mod tests {
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

    /// PR14: a tool is found by its name, its alias or, if unambiguous, its short name.
    #[tokio::test]
    async fn program_runs_any_tool_by_name() {
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
        assert_eq!(said, "invalid arguments: `close` matches 2 tools: `jira__close`, `github__close`");
        assert_eq!(answer(&toolbox, json!({ "name": "pen" })).await, "Unknown tool: pen");
        assert_eq!(
            answer(&toolbox, json!({ "name": "raed" })).await,
            "Unknown tool: raed; did you mean `read`?"
        );
    }

    /// PR14: arguments are checked like those of any call; `args` may be missing, JSON as text or, for a
    /// command, the words themselves.
    #[tokio::test]
    async fn the_arguments_are_those_of_the_tool() {
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

    /// PR14: events name the tool that runs.
    #[tokio::test]
    async fn events_name_the_tool_that_runs() {
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
        assert!(said.starts_with("invalid arguments: `program` cannot run itself"), "{said}");
    }

    #[test]
    fn a_tool_of_this_name_is_the_one_that_is_meant() {
        let toolbox = toolbox(&["program"]);
        assert!(toolbox.meant(&program(json!({ "path": "x" }))).unwrap().is_none());
    }
}
