mod vendors;

use serde_json::{Value, json};

use super::*;

fn schema(schema: &Value) -> OutputSchema {
    OutputSchema::new(schema).unwrap()
}

#[test]
fn what_is_no_object_is_wrapped_with_the_parts_it_refers_to_and_unwrapped_again() {
    let list = schema(&json!({
        "type": "array", "items": { "$ref": "#/$defs/one" },
        "$defs": { "one": { "type": "integer", "minimum": 3 } },
    }));
    let wrapped = list.object();
    assert_eq!(wrapped["properties"]["answer"]["items"], json!({ "$ref": "#/$defs/one" }));
    assert_eq!(wrapped["$defs"]["one"]["type"], "integer");
    assert!(jsonschema::validator_for(&wrapped).unwrap().is_valid(&json!({ "answer": [3] })));
    assert_eq!(list.accept(json!({ "answer": [3, 4] })), Ok(json!([3, 4])));
    assert_eq!(list.accept(json!([3, 4])), Ok(json!([3, 4])));
    let wrong = list.accept(json!({ "answer": [2] })).unwrap_err();
    assert!(wrong.contains("is not of type \"array\""), "{wrong}");
    // An object whose only property has the wrapper's name is not wrapped.
    let own = schema(&json!({ "type": "object", "properties": { "answer": { "type": "integer" } } }));
    assert_eq!(
        (own.object(), own.accept(json!({ "answer": 1 }))),
        (own.mended.clone(), Ok(json!({ "answer": 1 })))
    );
}

/// Replaced names are mapped back to the schema.
#[test]
fn names_are_mapped_back() {
    let odd = schema(&json!({
        "type": "object", "properties": { "$total": { "type": "integer" } }, "required": ["$total"],
        "additionalProperties": false,
    }));
    assert_eq!(odd.mended()["required"], json!(["total"]));
    assert_eq!(odd.accept(json!({ "total": 7 })), Ok(json!({ "$total": 7 })));
    assert_eq!(odd.accept(json!({ "$total": 7 })), Ok(json!({ "$total": 7 })));
    assert!(odd.accept(json!({ "$total": "7" })).unwrap_err().contains("/$total"));
}

#[test]
fn a_schema_that_cannot_be_used_is_refused() {
    let far = OutputSchema::new(&json!({ "$ref": "http://127.0.0.1:1/x.json" })).unwrap_err();
    assert!(matches!(far, OutputSchemaError::Invalid(_)), "{far}");
    let large = OutputSchema::new(&json!({ "description": "x".repeat(MAX_BYTES) })).unwrap_err();
    assert!(matches!(large, OutputSchemaError::TooLarge(_)), "{large}");
    assert!(OutputSchema::new(&json!("text")).is_err());
}

#[test]
fn what_a_vendor_has_no_words_for_is_left_out_or_not_said() {
    let narrow =
        Narrow { keywords: &[], formats: &["date"], min_items: 1, is_closed: true, plain_enums: true };
    let said = narrow.translate(&json!({
        "type": "object",
        "properties": {
            "day": { "type": "string", "format": "date", "minLength": 3 },
            "mail": { "type": "string", "format": "email" },
            "some": { "type": "array", "items": { "$ref": "#/definitions/one" }, "minItems": 2 },
            "kind": { "oneOf": [{ "const": "a" }, { "enum": ["b"] }] },
        },
        "definitions": { "one": { "type": "integer", "minimum": 1 } },
    }));
    assert_eq!(
        said,
        Some(json!({
            "type": "object",
            "properties": {
                "day": { "type": "string", "format": "date" },
                "mail": { "type": "string" },
                "some": { "type": "array", "items": { "$ref": "#/$defs/one" } },
                "kind": { "anyOf": [{ "enum": ["a"] }, { "enum": ["b"] }] },
            },
            "$defs": { "one": { "type": "integer" } },
            "additionalProperties": false,
        }))
    );
    for free in [
        json!({ "type": "object" }),
        json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        json!({ "type": "array", "items": {} }),
    ] {
        assert_eq!(narrow.translate(&free), None, "{free}");
    }
}
