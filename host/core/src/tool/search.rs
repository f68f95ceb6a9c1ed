//! The tool `find_tools`: finds tools by name and description. Knows only the tools of the box for which it was
//! made, and calls none.

mod index;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde_json::{Value, json};

use self::index::Index;
use super::entry::Entry;
use super::{Context, Tool, ToolError, generic};
use crate::call::{Hints, ToolCall, ToolDef, ToolResult};
use crate::grant::Grant;
use crate::limit::Limits;

pub(super) const NAME: &str = "find_tools";

/// Default number of tools in one answer: as many as a model can compare.
const USUAL: usize = 5;

/// Maximum number of tools in one answer.
const MOST: usize = 20;

/// Maximum number of bytes of an answer: 6,000 tokens. Tools beyond it are named only. The first tool is always
/// complete, as it would be in the list of tools.
const MAX_ANSWER: usize = 24_000;

/// Further names in an answer.
const MAX_NAMES: usize = 50;

/// Groups of tools in the description.
const MAX_GROUPS: usize = 10;

struct FindTools {
    def: ToolDef,
    tools: Vec<Arc<Entry>>,
    /// Made at the first call.
    index: OnceLock<Index>,
}

/// Returns the tool that finds `tools`.
pub(super) fn entry(tools: &[Arc<Entry>]) -> Entry {
    let tool = FindTools { def: def(tools), tools: tools.to_vec(), index: OnceLock::new() };
    Entry::new(Arc::new(tool), Grant::none(), Limits::default(), "built in")
}

fn def(tools: &[Arc<Entry>]) -> ToolDef {
    let description = format!(
        "Finds tools that are not listed here, by a description: {} tools in total{}. Returns the best \
         matches, each with its parameters; `{}` runs one by its name.",
        tools.len(),
        groups(tools),
        generic::NAME,
    );
    let parameters = json!({
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "What the tool should do, in a few words, or a part of its name",
            },
            "limit": {
                "type": "integer", "minimum": 1, "maximum": MOST,
                "description": format!("Tools in the answer; {USUAL} unless given"),
            },
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    let hints = Hints { read_only: true, idempotent: true, ..Hints::default() };
    ToolDef { name: NAME.into(), description, parameters, hints, ..ToolDef::default() }
}

/// Returns the plugins, programs and servers that tools come from, by the prefixes of their names.
fn groups(tools: &[Arc<Entry>]) -> String {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    let mut known = BTreeSet::new();
    for group in tools.iter().filter_map(|tool| group(&tool.def().name)) {
        if known.insert(group) {
            groups.push((group, 0));
        }
        if let Some((_, count)) = groups.iter_mut().rev().find(|(name, _)| *name == group) {
            *count += 1;
        }
    }
    if groups.is_empty() {
        return String::new();
    }
    let named = groups.iter().take(MAX_GROUPS).map(|(name, count)| format!("{name} ({count})"));
    let named = named.collect::<Vec<_>>().join(", ");
    match groups.len().saturating_sub(MAX_GROUPS) {
        0 => format!(", from {named}"),
        more => format!(", from {named} and {more} others"),
    }
}

/// Returns `github` of `github__list_issues` and of `mcp__github__list_issues`.
fn group(name: &str) -> Option<&str> {
    let (first, rest) = name.split_once("__")?;
    match first {
        "mcp" | "program" => rest.split_once("__").map(|(group, _)| group),
        _ => Some(first),
    }
}

#[async_trait]
impl Tool for FindTools {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn call(&self, call: &ToolCall, _context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let query = call.arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        let limit = call.arguments.get("limit").and_then(Value::as_u64);
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(USUAL).clamp(1, MOST);
        let index = self.index.get_or_init(|| Index::build(self.tools.iter().map(|tool| tool.def())));
        let found: Vec<&ToolDef> =
            index.find(query).into_iter().filter_map(|place| Some(self.tools.get(place)?.def())).collect();
        Ok(ToolResult::success(if found.is_empty() { self.none(query) } else { answer(&found, limit) }))
    }
}

impl FindTools {
    /// Returns the answer for a query without a match: the searchable topics.
    fn none(&self, query: &str) -> String {
        let names: Vec<&str> =
            self.tools.iter().map(|tool| tool.def().name.as_str()).take(MAX_NAMES).collect();
        let message = match query.trim() {
            "" => "describe the tool's purpose".to_owned(),
            _ => "no tool matches; try other words".to_owned(),
        };
        json!({ "tools": [], "message": message, "total": self.tools.len(), "names": names }).to_string()
    }
}

/// Returns the best of `found` in full, as many as fit, and the names of those that follow.
fn answer(found: &[&ToolDef], limit: usize) -> String {
    let mut tools: Vec<Value> = Vec::new();
    let mut size = 0;
    for def in found.iter().take(limit) {
        let tool = json!({ "name": def.name, "description": def.description, "parameters": def.parameters });
        size += tool.to_string().len();
        if size > MAX_ANSWER && !tools.is_empty() {
            break;
        }
        tools.push(tool);
    }
    let further = found.iter().skip(tools.len()).take(MAX_NAMES).map(|def| def.name.as_str());
    let further: Vec<&str> = further.collect();
    if further.is_empty() {
        return json!({ "tools": tools }).to_string();
    }
    json!({ "tools": tools, "matches": found.len(), "further": further }).to_string()
}

#[cfg(test)]
mod tests {
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

    /// PR15: an answer has some tools in full, further ones by name, and never more than requested.
    #[tokio::test]
    async fn answers_are_bounded() {
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

    /// PR15: a search without a match returns names of available tools.
    #[tokio::test]
    async fn who_finds_nothing_learns_what_there_is() {
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

    /// PR15: a model learns from the list alone where further tools come from.
    #[test]
    fn the_description_tells_where_tools_come_from() {
        let toolbox =
            toolbox(&["read", "git__log", "git__show", "mcp__jira__find", "program__make__all"]).within(1);
        let description = &toolbox.defs()[0].description;
        assert!(description.contains("5 tools in total, from git (2), jira (1), make (1)."), "{description}");
        let hints = toolbox.defs()[0].hints;
        assert!(hints.read_only && hints.idempotent && !hints.destructive && !hints.open_world);
    }
}
