use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::call::{ToolCall, ToolResult};
use crate::grant::Grant;
use crate::limit::Limits;
use crate::tool::{Context, Session, Tool, ToolError};

/// Answers with its own name and arguments.
pub(in super::super) struct Named(pub(in super::super) ToolDef);

#[async_trait::async_trait]
impl Tool for Named {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    async fn call(&self, call: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::success(format!("{} {}", self.0.name, call.arguments)))
    }
}

/// A box of tools with these names; each needs a `path` and nothing else.
pub(in super::super) fn toolbox(names: &[&str]) -> Toolbox {
    let mut toolbox = Toolbox::default();
    for name in names {
        let parameters = json!({
            "type": "object", "properties": { "path": { "type": "string" } }, "additionalProperties": false
        });
        let description = format!("Does what {} does.", name.replace('_', " "));
        let def = ToolDef { name: (*name).into(), description, parameters, ..ToolDef::default() };
        let tool: Arc<dyn Tool> = Arc::new(Named(def));
        toolbox.insert(tool, Grant::none(), Limits::default(), "the test").unwrap();
    }
    toolbox
}

fn many() -> Toolbox {
    let names: Vec<String> = (0..100).map(|number| format!("plugin{}__tool{number}", number / 10)).collect();
    let names: Vec<&str> = ["read", "bash"].into_iter().chain(names.iter().map(String::as_str)).collect();
    toolbox(&names)
}

fn names(toolbox: &Toolbox) -> Vec<&str> {
    toolbox.defs().into_iter().map(|def| def.name.as_str()).collect()
}

fn cost(toolbox: &Toolbox) -> usize {
    tokens(toolbox.defs().into_iter().map(bytes).sum())
}

/// PR15: an agent gets the first tools that fit the budget, and two tools that reach the others.
#[test]
fn what_is_told_of_fits_the_budget() {
    let all = many();
    let whole = u32::try_from(cost(&all)).unwrap();
    assert_eq!(names(&all.within(whole)), names(&all), "all of it fits, and nothing is added");
    for budget in [300, 600, 1000, whole - 1] {
        let told = all.within(budget);
        assert!(cost(&told) <= budget as usize, "{} of {budget}", cost(&told));
        let names = names(&told);
        let (own, extra) = names.split_at(names.len() - 2);
        assert_eq!(extra, ["find_tools", "program"]);
        assert_eq!(own, &self::names(&all)[..own.len()], "the first ones, in order");
        assert!(!own.is_empty() && told.unlisted() == 102 - own.len());
        assert_eq!(names, self::names(&all.within(budget)), "the same on every run");
    }
}

/// G03: a request has at most as many tools as a vendor accepts, and a way to the others.
#[test]
fn no_more_tools_than_a_vendor_takes() {
    let all = many();
    assert_eq!(names(&all.clone().at_most(102)), names(&all));
    let told = all.clone().at_most(100);
    assert_eq!((names(&told).len(), told.unlisted()), (100, 4));
    assert_eq!(names(&told)[98..], ["find_tools", "program"]);
    let within = all.within(300);
    assert_eq!(names(&within.clone().at_most(100)), names(&within), "fewer are told of already");
    assert_eq!(names(&all.at_most(0)), ["find_tools", "program"]);
}

/// PR15: a budget too small for any tool still leaves the two tools that reach all tools.
#[test]
fn the_smallest_budget_leaves_a_way_to_every_tool() {
    assert_eq!(names(&many().within(1)), ["find_tools", "program"]);
    assert!(names(&Toolbox::default().within(1)).is_empty(), "no tools, nothing to find");
}

/// PR15: a tool that is not offered can be called, by its own name and through `program`.
#[tokio::test]
async fn what_is_not_told_of_can_be_called() {
    let told = many().within(300);
    let answer = |tool: &str, arguments| {
        let call = ToolCall { id: "1".into(), tool: tool.into(), arguments };
        let told = told.clone();
        async move { told.dispatch(call, &Session::default()).await.content }
    };
    assert_eq!(answer("plugin9__tool99", json!({ "path": "x" })).await, r#"plugin9__tool99 {"path":"x"}"#);
    let through = json!({ "name": "plugin9__tool99", "args": { "path": "x" } });
    assert_eq!(answer("program", through).await, r#"plugin9__tool99 {"path":"x"}"#);
    let found = answer("find_tools", json!({ "query": "tool99" })).await;
    assert!(found.contains(r#""name":"plugin9__tool99""#) && found.contains(r#""path""#), "{found}");
}

/// TE08, PR15: a selection is offered completely, and its budget finds nothing outside it.
#[tokio::test]
async fn only_what_may_be_used_is_found() {
    let selected = many().select(&["plugin3__*".parse().unwrap(), "read".parse().unwrap()], None);
    assert_eq!(names(&selected).len(), 11);
    let told = selected.within(300);
    let call = |tool: &str, arguments| ToolCall { id: "1".into(), tool: tool.into(), arguments };
    let found = told.dispatch(call("find_tools", json!({ "query": "tool42" })), &Session::default()).await;
    assert!(!found.content.contains("plugin4"), "{}", found.content);
    let refused =
        told.dispatch(call("program", json!({ "name": "plugin4__tool42" })), &Session::default()).await;
    assert!(refused.is_error && refused.content.starts_with("Unknown tool"), "{}", refused.content);
}
