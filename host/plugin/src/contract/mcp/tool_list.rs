//! Converts the tools that a server lists to haft's.

use serde_json::{Value, json};

use crate::component::listing::{ListedTool, MAX_DESCRIPTION, MAX_TITLE};
use haft_core::call::Hints;
use haft_core::tool::Schema;

/// The tools of a page; `None` where it is none.
pub(super) fn page(result: &Value) -> Option<Vec<ListedTool>> {
    Some(result.get("tools")?.as_array()?.iter().map(tool).collect())
}

fn tool(tool: &Value) -> ListedTool {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let annotations = tool.get("annotations").unwrap_or(&Value::Null);
    let older = annotations.get("title").and_then(Value::as_str).filter(|title| !title.trim().is_empty());
    let title = text("title").or(older);
    let name = text("name").unwrap_or_default();
    let description = text("description").or(title).unwrap_or(name);
    // A schema that data cannot be checked by says nothing.
    let output = tool.get("outputSchema").filter(|schema| Schema::compile(schema).is_ok());
    ListedTool {
        name: name.to_owned(),
        description: description.chars().take(MAX_DESCRIPTION).collect(),
        parameters: parameters(tool.get("inputSchema")),
        title: title.map(|title| title.chars().take(MAX_TITLE).collect()),
        output: output.map(Value::to_string),
        hints: Hints::from_annotations(annotations),
    }
}

/// The schema as text. Some leave out what it is a schema of.
fn parameters(schema: Option<&Value>) -> String {
    let mut schema = schema.filter(|schema| !schema.is_null()).cloned().unwrap_or_else(|| json!({}));
    if let Some(object) = schema.as_object_mut() {
        object.entry("type").or_insert_with(|| "object".into());
    }
    schema.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_leaves_out_is_filled_in() {
        let listed = page(&json!({ "tools": [
            { "name": "a", "title": "An a", "inputSchema": { "properties": {} },
              "outputSchema": { "type": "nonsense" }, "annotations": { "readOnlyHint": true } },
            { "name": "b", "description": "Does b." },
            7,
        ] }));
        let [a, b, nameless] = &listed.unwrap()[..] else { panic!("three") };
        assert_eq!((a.description.as_str(), a.title.as_deref(), &a.output), ("An a", Some("An a"), &None));
        assert_eq!(a.parameters, r#"{"properties":{},"type":"object"}"#);
        assert!(a.hints.read_only && !a.hints.destructive);
        assert_eq!((b.description.as_str(), b.parameters.as_str()), ("Does b.", r#"{"type":"object"}"#));
        assert!(b.hints.destructive && b.hints.open_world);
        assert_eq!(nameless.name, "", "the check of all lists says that");
        assert!(page(&json!({ "tool": [] })).is_none());
    }
}
