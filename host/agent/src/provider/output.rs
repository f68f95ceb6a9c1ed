//! The JSON Schema of an answer: checked once, repaired once for all vendors. Maps the answers of vendors back to
//! the original schema. Refuses an invalid schema, a reference to another document, and a schema that is too large
//! to send with every request.

use std::fmt;

use serde_json::{Map, Value, json};

use super::mend::{Renames, mend_schema};
use haft_core::tool::{AnswerSchemaError, Schema};

/// 64 KiB: about 16,000 tokens, which every request contains; no model fills a larger schema.
const MAX_BYTES: usize = 64 << 10;

/// The property that wraps an answer other than an object, for vendors that accept only objects.
const WRAPPER: &str = "answer";

/// Keywords of referenced definitions, which stay at the root.
const PARTS: [&str; 2] = ["$defs", "definitions"];

/// A JSON Schema of a model's final answer, of any JSON type.
pub struct OutputSchema {
    written: Value,
    schema: Schema,
    /// The schema after the repairs for all vendors.
    mended: Value,
    renames: Renames,
}

/// The reason why a schema is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutputSchemaError {
    /// The schema is larger than any model reads with every request.
    #[error("the schema has {0} bytes; a model is sent at most {MAX_BYTES}")]
    TooLarge(usize),
    /// The schema is invalid or cannot be checked.
    #[error(transparent)]
    Invalid(#[from] AnswerSchemaError),
}

/// The requests with which a dialect sends the schema in the vendor's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formats {
    /// Always: the model can still call tools.
    BesideTools,
    /// Only in a request without tools: otherwise the server enforces the schema on calls too, or rejects the
    /// request.
    Alone,
    /// Never: the vendor has no such parameter.
    Never,
}

impl OutputSchema {
    /// Compiles and repairs `schema`. Fetches nothing: a reference to another document is an error.
    ///
    /// # Errors
    /// The schema is larger than 64 KiB, invalid, or refers to another document.
    pub fn new(schema: &Value) -> Result<Self, OutputSchemaError> {
        let bytes = schema.to_string().len();
        if bytes > MAX_BYTES {
            return Err(OutputSchemaError::TooLarge(bytes));
        }
        let compiled = Schema::of_answer(schema)?;
        let (mended, renames) = mend_schema(schema);
        Ok(Self { written: schema.clone(), schema: compiled, mended, renames })
    }

    /// Returns the original schema.
    pub fn written(&self) -> &Value {
        &self.written
    }

    /// Checks `value` against the schema, after restoring the names and removing the wrapper that a vendor
    /// required.
    ///
    /// # Errors
    /// Lists the mistakes with their places, at most eight.
    pub fn accept(&self, value: Value) -> Result<Value, String> {
        if let Some(inner) = self.unwrapped(&value)
            && let Ok(inner) = self.checked(inner.clone())
        {
            return Ok(inner);
        }
        self.checked(value)
    }

    fn checked(&self, value: Value) -> Result<Value, String> {
        let Err(error) = self.schema.check(&value) else { return Ok(value) };
        let restored = self.renames.restore(value);
        self.schema.check(&restored).map(|()| restored).map_err(|_| error.to_string())
    }

    /// Returns the value inside the wrapper, if there may be one.
    fn unwrapped<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        let members = value.as_object().filter(|members| members.len() == 1 && !self.is_object())?;
        members.get(WRAPPER)
    }

    /// Returns whether every answer is an object, by keywords that all vendors accept at the root.
    fn is_object(&self) -> bool {
        let combines = |key: &&str| self.mended.get(key).is_some();
        let is_plain = !["$ref", "anyOf", "oneOf", "allOf", "enum", "const", "not"].iter().any(combines);
        is_plain && self.mended.get("type") == Some(&"object".into())
    }

    pub(super) fn mended(&self) -> &Value {
        &self.mended
    }

    /// Returns the repaired schema with an object at the root.
    pub(super) fn object(&self) -> Value {
        if self.is_object() {
            return self.mended.clone();
        }
        let mut inner = self.mended.as_object().cloned().unwrap_or_default();
        let parts: Map<_, _> = PARTS.iter().filter_map(|key| inner.shift_remove_entry(*key)).collect();
        let mut outer = Map::new();
        outer.insert("type".into(), "object".into());
        outer.insert("properties".into(), json!({ WRAPPER: inner }));
        outer.insert("required".into(), json!([WRAPPER]));
        outer.insert("additionalProperties".into(), false.into());
        outer.extend(parts);
        outer.into()
    }
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputSchema").field(&self.written).finish()
    }
}

impl PartialEq for OutputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for OutputSchema {}

// Translates the schema of an answer to the keywords that a vendor supports. Reports a schema that cannot be
// translated, and drops keywords that only restrict it further: the answer is checked against the original schema
// anyway.

/// The keywords that every vendor supports in the schema of an answer.
pub(super) const KEYWORDS: &[&str] = &[
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "description",
    "enum",
    "format",
    "items",
    "minItems",
    "properties",
    "required",
    "title",
    "type",
];

/// The part of JSON Schema that a vendor supports for answers. References lead to `$defs`.
pub(super) struct Narrow {
    /// The supported keywords beside [`KEYWORDS`]; others are removed.
    pub(in crate::provider) keywords: &'static [&'static str],
    pub(in crate::provider) formats: &'static [&'static str],
    /// The largest supported `minItems`.
    pub(in crate::provider) min_items: u64,
    /// Whether every object must list all its properties, and every value must have a type.
    pub(in crate::provider) is_closed: bool,
    /// Whether enumerations may hold strings and numbers only.
    pub(in crate::provider) plain_enums: bool,
}

/// The prefix of local references in draft 7, and in later drafts.
const OLD_DEFINITIONS: &str = "#/definitions/";
const DEFINITIONS: &str = "#/$defs/";

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
            ("$ref", Value::String(path)) => path.replacen(OLD_DEFINITIONS, DEFINITIONS, 1).into(),
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
        KEYWORDS.contains(&keyword) || self.keywords.contains(&keyword)
    }

    /// Returns whether the vendor supports this value of a supported keyword.
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

/// Returns whether an object combines the properties of several schemas: after closing, each would reject the
/// properties of the others.
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

#[cfg(test)]
mod tests;
