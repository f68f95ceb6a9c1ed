//! The schema of an answer in a request to Anthropic: `output_config.format`, with a schema reduced to the keywords
//! that structured outputs support. A schema that cannot be reduced is given in the prompt alone.

use serde_json::{Map, Value, json};

use crate::provider::output::{Formats, Narrow, OutputSchema};

/// The keywords that the vendor's own client sends; it writes all others into descriptions.
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

/// Models without structured outputs.
const WITHOUT: &[&str] = &[
    "claude-2",
    "claude-3",
    "claude-instant",
    "claude-opus-4-0",
    "claude-opus-4-2",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
];

/// Returns when the schema is sent: never to models of other names, which are not the vendor's.
pub(super) fn formats(model: &str) -> Formats {
    let has = model.starts_with("claude-") && !WITHOUT.iter().any(|name| model.starts_with(name));
    if has { Formats::BesideTools } else { Formats::Never }
}

/// Adds the schema to a request, beside other members of `output_config`.
pub(super) fn add(body: &mut Map<String, Value>, output: &OutputSchema) {
    let Some(schema) = SCHEMA.translate(&output.object()) else { return };
    let config = body.entry("output_config").or_insert_with(|| json!({}));
    if let Value::Object(config) = config {
        config.insert("format".into(), json!({ "type": "json_schema", "schema": schema }));
    }
}
