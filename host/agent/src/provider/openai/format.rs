//! The schema of an answer for OpenAI's two APIs and the servers that implement them: a named JSON Schema, marked
//! strict if it qualifies.

use serde_json::{Map, Value, json};

use crate::provider::output::{OutputSchema, is_strict};

/// The required name of the schema.
const NAME: &str = "answer";

/// Returns `response_format` of chat completions.
pub(in crate::provider) fn response(output: &OutputSchema, is_vendor: bool) -> Value {
    json!({ "type": "json_schema", "json_schema": named(output, is_vendor) })
}

/// Returns `text.format` of the Responses API.
pub(in crate::provider) fn text(output: &OutputSchema, is_vendor: bool) -> Value {
    let mut format = Map::from_iter([("type".to_owned(), "json_schema".into())]);
    format.extend(named(output, is_vendor));
    format.into()
}

/// Returns the named schema. The vendor accepts an object only; other servers convert any schema to a grammar.
fn named(output: &OutputSchema, is_vendor: bool) -> Map<String, Value> {
    let schema = if is_vendor { output.object() } else { anchored(output.mended().clone()) };
    let strict = is_strict(&schema).into();
    Map::from_iter([
        ("name".to_owned(), NAME.into()),
        ("strict".to_owned(), strict),
        ("schema".to_owned(), schema),
    ])
}

/// Removes regular expressions without both anchors: llama.cpp cannot convert them to a grammar, and would reject
/// the whole schema.
fn anchored(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(node) => {
            let is_open = |pattern: &str| !(pattern.starts_with('^') && pattern.ends_with('$'));
            if node.get("pattern").and_then(Value::as_str).is_some_and(is_open) {
                node.shift_remove("pattern");
            }
            node.values_mut().for_each(|value| *value = anchored(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = anchored(item.take())),
        _ => {}
    }
    schema
}
