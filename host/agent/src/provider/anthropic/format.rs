//! The form of an answer as Anthropic takes it: `output_config.format`, with a schema in the fewer words that its
//! structured outputs know. A schema that they have no words for is told in the prompt alone.

use serde_json::{Map, Value, json};

use crate::provider::output::{Formats, Narrow, OutputSchema};

/// What the vendor's own client sends of a schema; it makes descriptions of all other keywords.
const SCHEMA: Narrow = Narrow {
    keywords: &[
        "$defs",
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "description",
        "enum",
        "format",
        "items",
        "minItems",
        "properties",
        "required",
        "title",
        "type",
    ],
    formats: &["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"],
    min_items: 1,
    is_closed: true,
    plain_enums: false,
};

/// Models from before structured outputs.
const WITHOUT: &[&str] = &[
    "claude-2",
    "claude-3",
    "claude-instant",
    "claude-opus-4-0",
    "claude-opus-4-2",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
];

/// When the form is sent: whatever else speaks the vendor's format has models of other names.
pub(super) fn formats(model: &str) -> Formats {
    let has = model.starts_with("claude-") && !WITHOUT.iter().any(|name| model.starts_with(name));
    if has { Formats::BesideTools } else { Formats::Never }
}

/// Adds the form to a request, beside what else `output_config` says.
pub(super) fn add(body: &mut Map<String, Value>, output: &OutputSchema) {
    let Some(schema) = SCHEMA.translate(&output.object()) else { return };
    let config = body.entry("output_config").or_insert_with(|| json!({}));
    if let Value::Object(config) = config {
        config.insert("format".into(), json!({ "type": "json_schema", "schema": schema }));
    }
}
