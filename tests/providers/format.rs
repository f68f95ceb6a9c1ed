//! Helpers for the checks of all formats.

use serde_json::{Map, Value};

pub(super) type Check = Result<(), String>;

pub(super) fn ensure(holds: bool, otherwise: impl Into<String>) -> Check {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

pub(super) fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{what} is not an object: {value}"))
}

/// A non-empty array.
pub(super) fn list<'a>(value: Option<&'a Value>, what: &str) -> Result<&'a [Value], String> {
    let list = value.and_then(Value::as_array).ok_or_else(|| format!("{what} is not an array"))?;
    ensure(!list.is_empty(), format!("{what} is empty"))?;
    Ok(list)
}

/// A non-empty text.
pub(super) fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Result<&'a str, String> {
    let text = object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("`{key}` is not a text with something in it"))
}

pub(super) fn known(object: &Map<String, Value>, keys: &[&str], what: &str) -> Check {
    let unknown: Vec<_> = object.keys().filter(|key| !keys.contains(&key.as_str())).collect();
    ensure(unknown.is_empty(), format!("{what} has unknown keys: {unknown:?}"))
}

/// A name that every vendor accepts.
pub(super) fn name<'a>(object: &'a Map<String, Value>, key: &str) -> Result<&'a str, String> {
    let name = text(object, key)?;
    let fits = name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    ensure(fits, format!("`{name}` is not a name"))?;
    Ok(name)
}

/// Every earlier turn comes back, in order and unmodified; further turns only if other vendors had them.
pub(super) fn echoed(sent: &[&Value], expected_answers: &[Value], moved: bool) -> Check {
    let mut expected = expected_answers.iter().peekable();
    let is_own = |message: &&Value| !moved || expected.next_if_eq(message).is_some();
    let sent: Vec<Value> = sent.iter().copied().filter(is_own).cloned().collect();
    ensure(
        sent == expected_answers,
        format!("turns came back changed:\nsent  {sent:?}\ngiven {expected_answers:?}"),
    )
}

/// A server-sent event.
pub(super) fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// `schema` and every schema inside pass `check`.
pub(crate) fn every_schema(schema: &Value, check: &dyn Fn(&Map<String, Value>) -> Check) -> Check {
    let Some(node) = schema.as_object() else { return Ok(()) };
    check(node)?;
    for (key, value) in node {
        match (key.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                named.values().try_for_each(|schema| every_schema(schema, check))?;
            }
            ("anyOf" | "allOf" | "oneOf", Value::Array(some)) => {
                some.iter().try_for_each(|schema| every_schema(schema, check))?;
            }
            ("items" | "additionalProperties" | "not", one) => every_schema(one, check)?,
            _ => {}
        }
    }
    Ok(())
}

/// OpenAI: every array has `items`.
pub(crate) fn arrays_have_items(schema: &Value) -> Check {
    every_schema(schema, &|node| {
        let is_array = node.get("type").is_some_and(|kind| kind.to_string().contains("\"array\""));
        let has_items = node.get("items").is_some_and(Value::is_object) && !node.contains_key("prefixItems");
        ensure(!is_array || has_items, format!("array schema missing items: {node:?}"))
    })
}

/// Anthropic and Gemini: the keys of properties match the vendors' pattern.
pub(crate) fn properties_are_named(schema: &Value) -> Check {
    every_schema(schema, &|node| {
        let names = node.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let plain = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        let mut odd = names.filter(|name| !(1..=64).contains(&name.len()) || !plain(name));
        odd.next().map_or(Ok(()), |name| Err(format!("property key `{name}` does not match the pattern")))
    })
}
