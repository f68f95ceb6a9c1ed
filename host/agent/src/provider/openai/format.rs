//! The schema of an answer for OpenAI's two APIs and the servers that implement them: a named JSON Schema,
//! marked strict if OpenAI accepts it as strict. Its models then follow it exactly: every object closed,
//! every property required, and only keywords that the guide to structured outputs lists. In doubt the schema
//! is not strict; it is sent either way.

use serde_json::{Map, Value, json};

use crate::provider::output::{KEYWORDS, OutputSchema};

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
/// the complete schema.
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

/// The keywords of a strict schema, beside [`KEYWORDS`].
const FURTHER: &[&str] = &[
    "const",
    "definitions",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maximum",
    "minimum",
    "multipleOf",
    "pattern",
];
/// The string formats of a strict schema.
const FORMATS: &[&str] =
    &["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];
/// The vendor's limits: levels of nesting, and properties of all objects together.
const MAX_DEPTH: usize = 10;
const MAX_PROPERTIES: usize = 5000;

/// Returns whether `schema`, the schema of an object, is strict.
pub(in crate::provider) fn is_strict(schema: &Value) -> bool {
    let mut properties = 0;
    schema.get("type") == Some(&"object".into()) && fits(schema, 0, &mut properties)
}

fn fits(schema: &Value, depth: usize, properties: &mut usize) -> bool {
    let Some(node) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else { return false };
    let says = |key: &&str| node.contains_key(*key);
    let is_said = ["$ref", "type", "enum", "const", "anyOf"].iter().any(says);
    let is_known =
        node.keys().map(String::as_str).all(|key| KEYWORDS.contains(&key) || FURTHER.contains(&key));
    let format = node.get("format").and_then(Value::as_str);
    is_said
        && is_known
        && format.is_none_or(|format| FORMATS.contains(&format))
        && is_closed(node, properties)
        && children(node).all(|(child, down)| fits(child, depth + down, properties))
}

/// Returns whether an object is closed and requires every property.
fn is_closed(node: &Map<String, Value>, properties: &mut usize) -> bool {
    let is_object = node.get("type").is_some_and(|kind| kind.to_string().contains("\"object\""));
    if !is_object {
        return true;
    }
    let required = node.get("required").and_then(Value::as_array);
    let named = node.get("properties").and_then(Value::as_object);
    let is_required =
        |name: &String| required.is_some_and(|all| all.iter().any(|value| value == name.as_str()));
    *properties += named.map_or(0, Map::len);
    node.get("additionalProperties") == Some(&false.into())
        && *properties <= MAX_PROPERTIES
        && named.is_none_or(|named| named.keys().all(is_required))
}

/// Returns the subschemas of a schema, and how much deeper each is.
fn children(node: &Map<String, Value>) -> impl Iterator<Item = (&Value, usize)> {
    let named = |key| node.get(key).and_then(Value::as_object).into_iter().flat_map(Map::values);
    let parts = named("$defs").chain(named("definitions")).map(|schema| (schema, 0));
    let any = node.get("anyOf").and_then(Value::as_array).into_iter().flatten().map(|schema| (schema, 0));
    let deeper = named("properties").chain(node.get("items")).map(|schema| (schema, 1));
    parts.chain(any).chain(deeper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_is_what_openai_lists_and_nothing_else() {
        let closed = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        let number = json!({ "type": ["integer", "null"], "minimum": 0 });
        assert!(is_strict(&closed(json!({ "n": number }), json!(["n"]))));
        let nested = closed(json!({ "n": number }), json!(["n"]));
        assert!(is_strict(&closed(json!({ "all": { "type": "array", "items": nested } }), json!(["all"]))));
        for (properties, required) in [
            (json!({ "n": number }), json!([])),
            (json!({ "n": { "type": "string", "minLength": 2 } }), json!(["n"])),
            (json!({ "n": { "type": "string", "format": "color" } }), json!(["n"])),
            (json!({ "n": { "oneOf": [number] } }), json!(["n"])),
            (json!({ "n": { "type": "object", "properties": {} } }), json!(["n"])),
            (json!({ "n": {} }), json!(["n"])),
        ] {
            let schema = closed(properties, required);
            assert!(!is_strict(&schema), "{schema}");
        }
        assert!(!is_strict(&json!({ "type": "array", "items": nested })));
        let deep = (0..12).fold(number, |inner, _| closed(json!({ "n": inner }), json!(["n"])));
        assert!(!is_strict(&deep));
    }
}
