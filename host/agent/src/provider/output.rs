//! The form that an answer is to have, as a JSON Schema: checked once, mended once for all vendors, and what a vendor
//! sends mapped back to it. Refuses what is no JSON Schema, what refers to another document, and what is too large to
//! be told with every request.

mod narrow;
mod strict;

use std::fmt;

use serde_json::{Map, Value, json};

pub(super) use self::narrow::Narrow;
pub(super) use self::strict::is_strict;
use super::mend::{Renames, mend_schema};
use haft_core::tool::{AnswerSchemaError, Schema};

/// 64 KiB: some 16,000 tokens, which go with every request; no model fills more.
const MAX_BYTES: usize = 64 << 10;

/// What stands around an answer that is no object, where a vendor takes nothing else.
const WRAPPER: &str = "answer";

/// Keywords that hold the parts that references lead to, and stay at the root.
const PARTS: [&str; 2] = ["$defs", "definitions"];

/// A JSON Schema of a model's final answer, of any JSON type.
pub struct OutputSchema {
    written: Value,
    schema: Schema,
    /// With nothing in it that some vendor refuses in any schema.
    mended: Value,
    renames: Renames,
}

/// Why a schema cannot be asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutputSchemaError {
    /// It is longer than any model reads with every request.
    #[error("the schema has {0} bytes; at most {MAX_BYTES} are told to a model")]
    TooLarge(usize),
    /// It is not a JSON Schema that can be checked here.
    #[error(transparent)]
    Invalid(#[from] AnswerSchemaError),
}

/// When a dialect sends the vendor's own parameter for the form of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formats {
    /// Always: tools can be called all the same.
    BesideTools,
    /// Where no tool is offered: every answer would be held to the form, calls included, or the request refused.
    Alone,
    /// Never: the model's vendor has none.
    Never,
}

impl OutputSchema {
    /// Compiles and mends `schema`. Fetches nothing: a reference to another document is an error.
    pub fn new(schema: &Value) -> Result<Self, OutputSchemaError> {
        let bytes = schema.to_string().len();
        if bytes > MAX_BYTES {
            return Err(OutputSchemaError::TooLarge(bytes));
        }
        let compiled = Schema::of_answer(schema)?;
        let (mended, renames) = mend_schema(schema);
        Ok(Self { written: schema.clone(), schema: compiled, mended, renames })
    }

    /// As it was written.
    pub fn written(&self) -> &Value {
        &self.written
    }

    /// What a model means by `value`: as it is, or with the names and without the wrapping that a vendor made
    /// necessary. The error lists what is wrong and where, at most eight mistakes.
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

    /// What stands inside the wrapping, where there may be one.
    fn unwrapped<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        let members = value.as_object().filter(|members| members.len() == 1 && !self.is_object())?;
        members.get(WRAPPER)
    }

    /// Whether every answer is an object, in words that all vendors take at the root.
    fn is_object(&self) -> bool {
        let combines = |key: &&str| self.mended.get(key).is_some();
        let is_plain = !["$ref", "anyOf", "oneOf", "allOf", "enum", "const", "not"].iter().any(combines);
        is_plain && self.mended.get("type") == Some(&"object".into())
    }

    /// The schema as every vendor takes one somewhere.
    pub(super) fn mended(&self) -> &Value {
        &self.mended
    }

    /// The same with an object at the root.
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
#[cfg(test)]
mod vendors;
