//! The JSON Schema of program.toml (draft 2020-12), for editors, generated from the declarations of the reader. The
//! schema accepts every file that the reader accepts; checks that JSON Schema cannot express are omitted.

use haft_core::units;
use serde_json::{Map, Value, json};

use super::Manifest;
use super::catalogue::{Key, Kind, Table};
use super::secret::SecretSource;
use super::table::{FromTable, FromValue};

/// The schema.
pub fn json_schema() -> Value {
    let Value::Object(root) = table(&Manifest::TABLE) else {
        return Value::Null;
    };
    let mut schema = Map::from_iter([
        ("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema")),
        ("title".to_owned(), json!("program.toml")),
    ]);
    schema.extend(root);
    Value::Object(schema)
}

fn table(shape: &Table) -> Value {
    let keys = shape.keys();
    let properties: Map<_, _> = keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let required: Vec<_> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    json!({
        "description": shape.doc,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn property(key: &Key) -> Value {
    let mut schema = kind(&key.kind);
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".to_owned(), json!(key.doc));
    }
    schema
}

fn kind(kind: &Kind) -> Value {
    match kind {
        Kind::Text | Kind::Path => json!({ "type": "string", "pattern": "\\S" }),
        Kind::Word => json!({ "type": "string" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Count { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Price => json!({ "type": "number", "minimum": 0 }),
        Kind::Size => quantity(units::SIZES),
        Kind::Time => quantity(units::TIMES),
        Kind::OneOf(names) => json!({ "enum": names() }),
        Kind::Pattern(pattern) => json!({ "type": "string", "pattern": pattern }),
        Kind::PortOr(pattern) => json!({ "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": u16::MAX },
            self::kind(&Kind::Pattern(pattern)),
        ] }),
        Kind::Command => json!({ "anyOf": [self::kind(&Kind::Text), word_list()] }),
        Kind::Scalar => json!({ "anyOf": [{ "type": ["string", "number", "boolean"] }, list(&Kind::Word)] }),
        Kind::Json => json!({ "type": "object" }),
        Kind::PathOrJson => json!({ "anyOf": [self::kind(&Kind::Path), self::kind(&Kind::Json)] }),
        Kind::TextOrSecret => json!({ "anyOf": [{ "type": "string" }, self::kind(&SecretSource::KIND)] }),
        Kind::Setting => {
            json!({ "anyOf": [{ "type": ["string", "number", "boolean"] }, self::kind(&SecretSource::KIND)] })
        }
        Kind::List(inner) => list(inner),
        Kind::Map(inner) => json!({ "type": "object", "additionalProperties": self::kind(inner) }),
        Kind::Table(shape) => table(shape),
    }
}

fn list(inner: &Kind) -> Value {
    json!({ "type": "array", "items": kind(inner) })
}

fn word_list() -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 })
}

fn quantity(units: &[(&str, u64)]) -> Value {
    let units: Vec<_> = units.iter().map(|(name, _)| *name).collect();
    json!({ "type": "string", "pattern": format!("^[0-9]+ *({})$", units.join("|")) })
}
