//! The list of tools for clients. A tool whose definition some client would refuse is repaired or omitted,
//! because many clients refuse the complete list because of one tool.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;

use super::names::{self, Names};
use haft_core::call::{Hints, ToolDef};
use haft_core::tool::{Entry, Offer, Schema, Served, Toolbox};

/// A tool as clients see it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ListedTool {
    /// The name that clients know.
    pub(super) name: String,
    /// The tool's name in the toolbox.
    pub(super) own: String,
    pub(super) input_schema: Arc<JsonObject>,
    /// Whether haft guarantees data that match the schema. For a server's tool the server guarantees them.
    pub(super) promises_data: bool,
    /// Whether the tool's MCP server requires that clients support tasks.
    pub(super) requires_task: bool,
    /// `Tool` of the protocol.
    pub(super) shown: Value,
}

/// Returns the tools of `toolbox` that clients see, in order, by these names.
pub(super) fn client_tools(toolbox: &Toolbox, names: &Names) -> Vec<ListedTool> {
    let readable: Vec<&str> = toolbox.offers().filter_map(|entry| server_of_resources(entry)).collect();
    toolbox.entries().filter_map(|entry| listed_tool(entry, names, &readable)).collect()
}

/// Returns one tool of the list. Clients may read the resources of the servers in `readable`.
fn listed_tool(entry: &Entry, names: &Names, readable: &[&str]) -> Option<ListedTool> {
    let (def, served) = (entry.def(), entry.served());
    let name = names.of(&def.name, served);
    if let Some(Served { server, definition }) = served {
        let mut shown = names.definition(server, definition);
        shown.insert("name".to_owned(), name.as_str().into());
        if !readable.contains(&server) {
            names::without_interface(&mut shown);
        }
        let input_schema = Arc::new(shown.get("inputSchema")?.as_object()?.clone());
        let support = definition.pointer("/execution/taskSupport");
        let requires_task = support.is_some_and(|support| support == "required");
        let (own, shown) = (def.name.clone(), shown.into());
        return Some(ListedTool { name, own, input_schema, promises_data: false, requires_task, shown });
    }
    // A component's definitions were checked when it was listed, including the compilation of every schema.
    let mut tool = client_tool(def, entry.digest().is_some())?;
    tool.name = name.clone().into();
    Some(ListedTool {
        name,
        own: def.name.clone(),
        input_schema: tool.input_schema.clone(),
        promises_data: tool.output_schema.is_some(),
        requires_task: false,
        shown: serde_json::to_value(tool).ok()?,
    })
}

fn server_of_resources(entry: &Entry) -> Option<&str> {
    match entry.offer() {
        Some(Offer::ServerResources { server, .. }) => Some(server),
        _ => None,
    }
}

/// Returns a tool, or `None` if it could not be called. `is_checked`: its schemas are known to compile.
fn client_tool(def: &ToolDef, is_checked: bool) -> Option<Tool> {
    let Some(parameters) = object_schema(&def.parameters) else {
        tracing::warn!(tool = def.name, "tool left out: its parameters are not an object schema");
        return None;
    };
    let mut tool = Tool::new(def.name.clone(), def.description.clone(), Arc::new(parameters));
    tool.title.clone_from(&def.title);
    tool.annotations = Some(annotations(def.hints));
    tool.output_schema = def.output.as_ref().and_then(|schema| output(schema, is_checked)).map(Arc::new);
    Some(tool)
}

/// Returns the schema of a tool's structured data, if clients can check with it: they require an object, and some
/// ignore the declared dialect.
fn output(schema: &Value, is_checked: bool) -> Option<JsonObject> {
    let mut schema = object_schema(schema).filter(|_| is_checked || Schema::compile(schema).is_ok())?;
    schema.remove("$schema");
    Some(schema)
}

fn object_schema(schema: &Value) -> Option<JsonObject> {
    let object = schema.as_object()?;
    (object.get("type").and_then(Value::as_str) == Some("object")).then(|| object.clone())
}

fn annotations(hints: Hints) -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(hints.open_world)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn def(parameters: Value, output: Option<Value>) -> ToolDef {
        ToolDef { name: "t".into(), parameters, output, ..ToolDef::default() }
    }

    /// A schema that clients refuse hides no other tool.
    #[test]
    fn a_definition_that_clients_refuse_is_mended_or_left_out() {
        for bad in [json!(true), json!({}), json!({"type": "string"}), json!({"type": ["object", "null"]})] {
            assert!(client_tool(&def(bad.clone(), None), false).is_none(), "{bad}");
            let tool = client_tool(&def(json!({"type": "object"}), Some(bad)), false).unwrap();
            assert_eq!(tool.output_schema, None);
        }
    }

    /// Accepted definitions stay unmodified, including dialect and references.
    #[test]
    fn a_definition_is_passed_on_whole() {
        let parameters = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"a": {"type": "string"}},
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "additionalProperties": false,
        });
        let titled =
            ToolDef { title: Some("A title".into()), ..def(parameters.clone(), Some(parameters.clone())) };
        let tool = client_tool(&titled, false).unwrap();
        assert_eq!(tool.title, titled.title);
        assert_eq!(Value::Object((*tool.input_schema).clone()), parameters);
        let output = tool.output_schema.unwrap();
        assert_eq!((output.get("$schema"), output.get("$defs")), (None, parameters.get("$defs")));
    }

    #[test]
    fn hints_are_annotations() {
        let hints = Hints { read_only: true, ..Hints::default() };
        let tool = client_tool(&ToolDef { hints, ..def(json!({"type": "object"}), None) }, false).unwrap();
        assert_eq!(
            serde_json::to_value(tool.annotations).unwrap(),
            json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false})
        );
    }
}
