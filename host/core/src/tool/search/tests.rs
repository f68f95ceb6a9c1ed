use super::*;
use crate::tool::budget::tests::toolbox;
use crate::tool::{Session, Toolbox};

async fn find(toolbox: &Toolbox, arguments: Value) -> Value {
    let call = ToolCall { id: "1".into(), tool: NAME.into(), arguments };
    let result = toolbox.dispatch(call, &Session::default()).await;
    assert!(!result.is_error, "{}", result.content);
    serde_json::from_str(&result.content).unwrap()
}

fn names(answer: &Value) -> Vec<&str> {
    answer["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn letters() -> Toolbox {
    let names: Vec<String> = (0..60).map(|number| format!("mail__letter{number}_send")).collect();
    toolbox(&names.iter().map(String::as_str).collect::<Vec<_>>()).within(1)
}

/// PR15: some in full, the next by name, and never more than was asked for.
#[tokio::test]
async fn pr15_answers_are_bounded() {
    let toolbox = letters();
    let answer = find(&toolbox, json!({ "query": "send" })).await;
    assert_eq!(names(&answer).len(), USUAL);
    assert_eq!((answer["matches"].as_u64(), answer["further"].as_array().unwrap().len()), (Some(60), 50));
    assert_eq!(answer["tools"][0]["parameters"]["type"], "object");
    let answer = find(&toolbox, json!({ "query": "letter7", "limit": 1 })).await;
    assert_eq!(names(&answer), ["mail__letter7_send"]);
    let call =
        ToolCall { id: "1".into(), tool: NAME.into(), arguments: json!({ "query": "x", "limit": 21 }) };
    assert!(toolbox.dispatch(call, &Session::default()).await.is_error);
}

#[tokio::test]
async fn pr15_who_finds_nothing_learns_what_there_is() {
    let answer = find(&letters(), json!({ "query": "weather" })).await;
    assert_eq!(answer["message"], "no tool matches; try other words");
    assert_eq!(answer["total"], 60);
    assert_eq!(answer["names"].as_array().unwrap().len(), MAX_NAMES);
}

#[test]
fn long_answers_name_what_no_longer_fits() {
    let long = |name: &str| ToolDef {
        name: name.into(),
        description: "x".repeat(MAX_ANSWER - 2000),
        ..ToolDef::default()
    };
    let (first, second) = (long("a"), long("b"));
    let answer: Value = serde_json::from_str(&answer(&[&first, &second], MOST)).unwrap();
    assert_eq!(names(&answer), ["a"]);
    assert_eq!(answer["further"], json!(["b"]));
}

/// PR15: a model that reads nothing but the list learns what else there is.
#[test]
fn pr15_the_description_tells_where_tools_come_from() {
    let toolbox =
        toolbox(&["read", "git__log", "git__show", "mcp__jira__find", "program__make__all"]).within(1);
    let description = &toolbox.defs()[0].description;
    assert!(
        description.contains("5 tools are there in all, from git (2), jira (1), make (1)."),
        "{description}"
    );
    let hints = toolbox.defs()[0].hints;
    assert!(hints.read_only && hints.idempotent && !hints.destructive && !hints.open_world);
}
