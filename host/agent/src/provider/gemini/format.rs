//! The schema of an answer in a request to Gemini: `responseJsonSchema`, with the part of JSON Schema that its
//! reference lists.

use serde_json::{Map, Value, json};

use crate::provider::output::{Formats, Narrow, OutputSchema};

/// The keywords that the vendor supports.
const SCHEMA: Narrow = Narrow {
    keywords: &[
        "$defs",
        "$ref",
        "additionalProperties",
        "anyOf",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "oneOf",
        "properties",
        "required",
        "title",
        "type",
    ],
    formats: &["date", "date-time", "time"],
    min_items: u64::MAX,
    is_closed: false,
    plain_enums: true,
};

/// Generations of models that reject tools together with a schema for the answer.
const APART: &[&str] = &["gemini-1", "gemini-2"];

/// Returns when the schema is sent.
pub(super) fn formats(model: &str) -> Formats {
    if APART.iter().any(|name| model.contains(name)) { Formats::Alone } else { Formats::BesideTools }
}

/// Adds the schema to a request, beside other members of `generationConfig`.
pub(super) fn add(body: &mut Map<String, Value>, output: &OutputSchema) {
    let Some(schema) = SCHEMA.translate(&output.object()) else { return };
    let config = body.entry("generationConfig").or_insert_with(|| json!({}));
    if let Value::Object(config) = config {
        config.insert("responseMimeType".into(), "application/json".into());
        config.insert("responseJsonSchema".into(), schema);
    }
}
