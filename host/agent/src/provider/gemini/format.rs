//! The form of an answer as Gemini takes it: `responseJsonSchema`, with the part of JSON Schema that its reference
//! lists.

use serde_json::{Map, Value, json};

use crate::provider::output::{Formats, Narrow, OutputSchema};

/// What the vendor reads of a schema.
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

/// Generations of models that refuse tools where the answer is to have a form.
const APART: &[&str] = &["gemini-1", "gemini-2"];

/// When the form is sent.
pub(super) fn formats(model: &str) -> Formats {
    if APART.iter().any(|name| model.contains(name)) { Formats::Alone } else { Formats::BesideTools }
}

/// Adds the form to a request, beside what else `generationConfig` says.
pub(super) fn add(body: &mut Map<String, Value>, output: &OutputSchema) {
    let Some(schema) = SCHEMA.translate(&output.object()) else { return };
    let config = body.entry("generationConfig").or_insert_with(|| json!({}));
    if let Value::Object(config) = config {
        config.insert("responseMimeType".into(), "application/json".into());
        config.insert("responseJsonSchema".into(), schema);
    }
}
