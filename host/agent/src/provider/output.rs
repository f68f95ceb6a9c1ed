//! The JSON Schema of an answer: checked once, repaired once for all vendors. Maps the answers of vendors back to
//! the original schema. Refuses an invalid schema, a reference to another document, and a schema that is too large
//! to send with every request.

mod narrow;

use std::fmt;

use serde_json::{Map, Value, json};

pub(super) use self::narrow::Narrow;
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

/// Why a schema is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutputSchemaError {
    /// The schema is larger than any model reads with every request.
    #[error("the schema has {0} bytes; at most {MAX_BYTES} are told to a model")]
    TooLarge(usize),
    /// The schema is invalid or cannot be checked.
    #[error(transparent)]
    Invalid(#[from] AnswerSchemaError),
}

/// When a dialect sends the schema in the vendor's parameter.
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

    /// Whether every answer is an object, by keywords that all vendors accept at the root.
    fn is_object(&self) -> bool {
        let combines = |key: &&str| self.mended.get(key).is_some();
        let is_plain = !["$ref", "anyOf", "oneOf", "allOf", "enum", "const", "not"].iter().any(combines);
        is_plain && self.mended.get("type") == Some(&"object".into())
    }

    /// Returns the schema after the repairs for all vendors.
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

#[cfg(test)]
mod tests;
