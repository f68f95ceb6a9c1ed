//! Translates the schema of an answer to the keywords that a vendor supports. Reports a schema that cannot be
//! translated, and drops keywords that only restrict it further: the answer is checked against the original schema
//! anyway.

use serde_json::{Map, Value, json};

/// The part of JSON Schema that a vendor supports for answers. References lead to `$defs`.
pub(in crate::provider) struct Narrow {
    /// The supported keywords; others are removed.
    pub(in crate::provider) keywords: &'static [&'static str],
    /// The supported formats.
    pub(in crate::provider) formats: &'static [&'static str],
    /// The largest supported `minItems`.
    pub(in crate::provider) min_items: u64,
    /// Whether every object must list all its properties, and every value must have a type.
    pub(in crate::provider) is_closed: bool,
    /// Whether enumerations may hold strings and numbers only.
    pub(in crate::provider) plain_enums: bool,
}

/// The prefix of local references in draft 7, and in later drafts.
const OLD_PARTS: &str = "#/definitions/";
const PARTS: &str = "#/$defs/";

type Node = Map<String, Value>;

impl Narrow {
    /// Translates `schema`; `None` if the vendor cannot express it.
    pub(in crate::provider) fn translate(&self, schema: &Value) -> Option<Value> {
        let mut translated = Node::new();
        let node = schema.as_object()?;
        if self.is_closed && is_sum(node) {
            return None;
        }
        for (key, value) in node {
            self.keyword(&mut translated, key, value)?;
        }
        if self.is_closed {
            close(&mut translated)?;
        }
        Some(translated.into())
    }

    /// Adds the translation of a keyword.
    fn keyword(&self, translated: &mut Node, key: &str, value: &Value) -> Option<()> {
        let key = match key {
            "definitions" => "$defs",
            "oneOf" if !self.has("oneOf") => "anyOf",
            "const" if !self.has("const") => return self.keyword(translated, "enum", &json!([value])),
            // Property names given by a pattern cannot be listed.
            "patternProperties" if self.is_closed => return None,
            key => key,
        };
        if !self.has(key) || !self.takes(key, value) {
            return Some(());
        }
        let value = match (key, value) {
            ("$ref", Value::String(path)) => path.replacen(OLD_PARTS, PARTS, 1).into(),
            ("properties" | "$defs", Value::Object(named)) => {
                let named = named.iter().map(|(name, schema)| Some((name.clone(), self.translate(schema)?)));
                Value::Object(named.collect::<Option<_>>()?)
            }
            ("anyOf" | "allOf" | "oneOf", Value::Array(some)) => {
                some.iter().map(|schema| self.translate(schema)).collect::<Option<_>>()?
            }
            ("items" | "additionalProperties", Value::Object(_)) => self.translate(value)?,
            _ => value.clone(),
        };
        match (translated.get_mut(key), value) {
            // `definitions` and `$defs` may both be present.
            (Some(Value::Object(before)), Value::Object(more)) => before.extend(more),
            (_, value) => drop(translated.insert(key.to_owned(), value)),
        }
        Some(())
    }

    fn has(&self, keyword: &str) -> bool {
        self.keywords.contains(&keyword)
    }

    /// Whether the vendor supports this value of a supported keyword.
    fn takes(&self, key: &str, value: &Value) -> bool {
        match (key, value) {
            ("format", Value::String(format)) => self.formats.contains(&format.as_str()),
            ("minItems", least) => least.as_u64().is_some_and(|least| least <= self.min_items),
            ("enum", Value::Array(values)) if self.plain_enums => {
                values.iter().all(|value| value.is_string() || value.is_number())
            }
            _ => true,
        }
    }
}

/// Whether an object combines the properties of several schemas: after closing, each would reject the properties of
/// the others.
fn is_sum(node: &Node) -> bool {
    let all = node.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
    let is_combined = ["$ref", "allOf", "anyOf", "oneOf"].into_iter().any(|key| node.contains_key(key));
    all > 1 || is_combined && node.contains_key("properties")
}

/// Closes an object; `None` if it would then accept nothing, or if a value may have any type.
fn close(node: &mut Node) -> Option<()> {
    let says = |key: &str| node.contains_key(key);
    if !["$ref", "type", "enum", "const", "anyOf", "allOf"].into_iter().any(says) {
        return None;
    }
    let is_object = node.get("type").is_some_and(|kind| kind.to_string().contains("\"object\""));
    if is_object {
        let is_map = node.get("additionalProperties").is_some_and(Value::is_object);
        let has_properties =
            node.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
        if is_map || !has_properties {
            return None;
        }
        node.insert("additionalProperties".into(), false.into());
    }
    Some(())
}
