//! Whether OpenAI accepts a schema as strict, which its models then follow exactly: every object closed, every
//! property required, and only keywords that the guide to structured outputs lists. In doubt the schema is not
//! strict; it is sent either way.

use serde_json::{Map, Value};

/// The keywords of a strict schema.
const KEYWORDS: &[&str] = &[
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "definitions",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];
/// The string formats of a strict schema.
const FORMATS: &[&str] =
    &["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];
/// The vendor's limits: levels of nesting, and properties of all objects together.
const MAX_DEPTH: usize = 10;
const MAX_PROPERTIES: usize = 5000;

/// Whether `schema`, the schema of an object, is strict.
pub(in crate::provider) fn is_strict(schema: &Value) -> bool {
    let mut properties = 0;
    schema.get("type") == Some(&"object".into()) && fits(schema, 0, &mut properties)
}

fn fits(schema: &Value, depth: usize, properties: &mut usize) -> bool {
    let Some(node) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else { return false };
    let says = |key: &&str| node.contains_key(*key);
    let is_said = ["$ref", "type", "enum", "const", "anyOf"].iter().any(says);
    let is_known = node.keys().all(|key| KEYWORDS.contains(&key.as_str()));
    let format = node.get("format").and_then(Value::as_str);
    is_said
        && is_known
        && format.is_none_or(|format| FORMATS.contains(&format))
        && is_closed(node, properties)
        && children(node).all(|(child, down)| fits(child, depth + down, properties))
}

/// Whether an object is closed and requires every property.
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
