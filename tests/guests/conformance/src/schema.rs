//! A tool whose schema uses the keywords of dialect 2020-12: the schema must arrive unmodified.

use std::borrow::Cow;

use haft_plugin::{Context, Error, Output, Tool};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Any object: what it must be stands in the schema below.
#[derive(serde::Deserialize)]
pub(crate) struct Dialect {}

impl JsonSchema for Dialect {
    fn schema_name() -> Cow<'static, str> {
        "Dialect".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "description": "Tool with JSON Schema 2020-12 features",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": { "street": { "type": "string" }, "city": { "type": "string" } }
                }
            },
            "properties": {
                "name": { "type": "string" },
                "address": { "$ref": "#/$defs/address" },
                "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                "phone": { "type": "string" },
                "email": { "type": "string" }
            },
            "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
            "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
            "then": { "required": ["phone"] },
            "else": { "required": ["email"] },
            "additionalProperties": false
        })
    }
}

impl Tool for Dialect {
    const NAME: &str = "json_schema_2020_12_tool";

    fn call(self, _: &Context) -> Result<Output, Error> {
        Ok("It fits.".into())
    }
}
