use super::*;

const STRICT: Subset = Subset {
    keywords: &[
        "type",
        "format",
        "description",
        "nullable",
        "enum",
        "properties",
        "required",
        "items",
        "anyOf",
        "minimum",
    ],
    formats: &[("string", "date-time")],
    nullable: true,
    is_strict: true,
};
const LAX: Subset = Subset { nullable: false, is_strict: false, ..STRICT };

/// Translates the schema of one argument to `subset`.
fn translated(subset: &Subset, argument: impl Into<Value>) -> Option<Value> {
    let argument: Value = argument.into();
    let schema = json!({ "type": "object", "properties": { "a": argument } });
    subset.translate(&schema).map(|root| root["properties"]["a"].clone())
}

/// PL16: a null among the types becomes `nullable`.
#[test]
fn null_among_the_types_becomes_nullable() {
    let optional = json!({ "type": ["integer", "null"], "format": "uint32", "minimum": 0 });
    assert_eq!(
        translated(&STRICT, optional.clone()),
        Some(json!({ "type": "integer", "minimum": 0, "nullable": true }))
    );
    assert_eq!(translated(&LAX, optional), Some(json!({ "type": "integer", "minimum": 0 })));
    let any = json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "description": "d" });
    assert_eq!(
        translated(&STRICT, any),
        Some(json!({ "description": "d", "type": "string", "nullable": true }))
    );
    let both = json!({ "type": ["string", "integer"] });
    assert_eq!(
        translated(&STRICT, both),
        Some(json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }))
    );
}

/// PL16: unknown keywords, unknown formats and required names without a property are omitted.
#[test]
fn what_the_vendor_does_not_know_is_left_out() {
    let schema = json!({
        "$schema": "x", "type": "object", "additionalProperties": false, "required": ["a", "gone"],
        "properties": { "a": { "type": "string", "format": "uri", "pattern": "x", "default": "y" },
                        "when": { "type": "string", "format": "date-time" } },
    });
    let expected = json!({
        "type": "object", "required": ["a"],
        "properties": { "a": { "type": "string" }, "when": { "type": "string", "format": "date-time" } },
    });
    assert_eq!(STRICT.translate(&schema).map(Value::from), Some(expected));
}

/// PL16: references are expanded; endless and broken references cannot be expressed.
#[test]
fn references_are_followed_and_endless_ones_are_unsayable() {
    let schema = json!({
        "type": "object", "properties": { "p": { "$ref": "#/$defs/point", "description": "where" } },
        "$defs": { "point": { "type": "object", "properties": { "x": { "type": "number" } }, "required": ["x"] } },
    });
    let point = json!({ "type": "object", "properties": { "x": { "type": "number" } }, "required": ["x"], "description": "where" });
    assert_eq!(STRICT.translate(&schema).unwrap()["properties"]["p"], point);
    let endless = json!({
        "type": "object", "properties": { "tree": { "$ref": "#/$defs/tree" } },
        "$defs": { "tree": { "type": "object", "properties": { "left": { "$ref": "#/$defs/tree" }, "right": { "$ref": "#/$defs/tree" } } } },
    });
    assert_eq!(STRICT.translate(&endless), None);
    for gone in ["#/nowhere", "http://elsewhere/", "#/properties/a"] {
        assert_eq!(translated(&STRICT, json!({ "$ref": gone })), None, "{gone}");
    }
}

/// PL16: only texts are enumerated; other values are listed in the description.
#[test]
fn only_texts_are_enumerated() {
    let texts = json!({ "enum": ["a", null] });
    assert_eq!(
        translated(&STRICT, texts),
        Some(json!({ "enum": ["a"], "type": "string", "nullable": true }))
    );
    let numbers = json!({ "type": "integer", "enum": [1, 2], "description": "How many." });
    let expected = json!({ "type": "integer", "description": "How many. (one of: 1, 2)" });
    assert_eq!(translated(&STRICT, numbers), Some(expected));
    assert_eq!(
        translated(&STRICT, json!({ "const": "x" })),
        Some(json!({ "enum": ["x"], "type": "string" }))
    );
}

/// PL16: objects without properties and lists without items cannot be expressed in a strict subset.
#[test]
fn free_objects_and_lists_of_anything_are_unsayable() {
    for free in [json!({ "type": "object" }), json!({ "type": "array" }), json!({}), json!(true)] {
        assert_eq!(translated(&STRICT, free.clone()), None, "{free}");
        assert!(translated(&LAX, free).is_some());
    }
    assert_eq!(
        STRICT.translate(&json!({})).map(Value::from),
        Some(json!({ "type": "object", "properties": {} }))
    );
}

#[test]
fn all_of_is_one_schema() {
    let all = json!({ "allOf": [
        { "type": "object", "properties": { "x": { "type": "string" } }, "required": ["x"] },
        { "properties": { "y": { "type": "string" } } },
    ] });
    let expected = json!({ "properties": { "x": { "type": "string" }, "y": { "type": "string" } }, "required": ["x"], "type": "object" });
    assert_eq!(translated(&STRICT, all), Some(expected));
    assert_eq!(
        translated(&STRICT, json!({ "allOf": [{ "type": "string" }] })),
        Some(json!({ "type": "string" }))
    );
}

/// Root schemas become plain objects, because OpenAI and Anthropic reject others.
#[test]
fn the_root_is_a_plain_object() {
    assert_eq!(plain_object(&json!({ "type": "object" })), json!({ "type": "object", "properties": {} }));
    assert_eq!(plain_object(&Value::Null), json!({ "type": "object", "properties": {} }));
    let either = json!({ "type": "object", "properties": { "a": {} }, "required": ["a"], "anyOf": [
        { "properties": { "b": {} }, "required": ["b", "c"] }, { "properties": { "c": {} }, "required": ["c"] },
    ] });
    let plain =
        json!({ "type": "object", "properties": { "a": {}, "b": {}, "c": {} }, "required": ["a", "c"] });
    assert_eq!(plain_object(&either), plain);
    let untouched =
        json!({ "type": "object", "properties": { "a": { "type": ["integer", "null"] } }, "x": 1 });
    assert_eq!(plain_object(&untouched), untouched);
}
