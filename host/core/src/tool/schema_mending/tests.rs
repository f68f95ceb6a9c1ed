use serde_json::{Value, json};

use super::*;

/// Checks the repair of a property's schema, and the arguments that pass and fail.
fn check(property: &Value, expected: &Value, good: &Value, bad: Option<&Value>) {
    whole(
        &json!({ "properties": { "v": property } }),
        Some(expected),
        &json!({ "v": good }),
        bad.map(|bad| json!({ "v": bad })),
    );
}

fn whole(schema: &Value, property: Option<&Value>, good: &Value, bad: Option<Value>) {
    let mended = mend(schema);
    let compiled = Schema::compile(&mended.schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
    assert_eq!(compiled.check(good), Ok(()), "{schema} made {}", mended.schema);
    if let Some(bad) = bad {
        assert!(compiled.check(&bad).is_err(), "{schema} made {}, which takes {bad}", mended.schema);
    }
    if let Some(property) = property {
        assert_eq!(&mended.schema["properties"]["v"], property, "{schema}");
    }
    let again = mend(&mended.schema);
    assert_eq!((again.schema, again.notes), (mended.schema, Vec::new()), "{schema}: mended twice");
}

/// (B12, B13) Valid properties stay unmodified, without notes.
#[test]
fn what_is_right_stays() {
    for property in [
        json!(true),
        json!({}),
        json!({ "type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]+$", "format": "email" }),
        json!({ "type": ["integer", "null"], "minimum": 0, "exclusiveMaximum": 10.5, "multipleOf": 2 }),
        json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "uniqueItems": true }),
        json!({ "type": "array", "prefixItems": [{ "type": "string" }, true], "items": false }),
        json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null, "title": "V" }),
        json!({ "oneOf": [{ "const": 1 }, { "enum": ["a", 2, null] }] }),
        json!({ "type": "object", "properties": { "type": { "type": "string" }, "required": { "type": "boolean" } }, "required": ["type"] }),
        json!({ "type": "object", "patternProperties": { "^x-": { "type": "string" } }, "additionalProperties": false }),
        json!({ "$ref": "#/$defs/d" }),
        json!({ "$ref": "#/properties/w" }),
        json!({ "$ref": "#named" }),
        json!({ "$ref": "#" }),
        json!({ "if": { "type": "string" }, "then": { "minLength": 1 }, "else": { "type": "integer" } }),
        json!({ "not": { "type": "null" }, "x-own": [1], "nullable": true, "examples": ["a"], "deprecated": true }),
        json!({ "type": "object", "dependentRequired": { "a": ["b"] }, "propertyNames": { "maxLength": 3 } }),
    ] {
        let schema = json!({ "type": "object", "properties": { "v": property, "w": {} },
            "$defs": { "d": { "type": "string" }, "n": { "$anchor": "named" } } });
        let mended = mend(&schema);
        assert_eq!((mended.schema, mended.notes), (schema, Vec::<String>::new()));
    }
}

/// (B12) A pattern of another dialect is not checked, and everything else is checked.
#[test]
fn patterns_that_cannot_be_read_are_left_unchecked() {
    for (pattern, good) in [
        (r"^[\w-\.]+@([\w-]+\.)+[\w-]{2,4}$", "a.b@c.org"),
        (r"^[\w-.]+$", "a-b.c"),
        (r"^[^]*$", "x"),
        (r"^{[a-z]+}$", "{ab}"),
        (r#"^(?<q>["'])x\k<q>$"#, "\"x\""),
        (r"^[^\uD800-\uDFFF]+$", "x"),
        (r"^[^\cA\0]+$", "x"),
        (r"^.{0,100000}$", "x"),
        (r"^[a-z", "x"),
        (r"(?<a>x)(?<a>y)", "xy"),
        (r"\p{Nonsense}", "x"),
        (r"^(a", "a"),
        (r"*", "x"),
        (r"a{2,1}", "x"),
        (r"[z-a]", "x"),
        (r"(?#comment)x", "x"),
        (r"^\d+(?!\w)$", "1"),
        (r"\u{1F600}", "\u{1f600}"),
    ] {
        let property = json!({ "type": "string", "pattern": pattern, "maxLength": 40 });
        let schema = json!({ "properties": { "v": property } });
        let too_long = "x".repeat(41);
        whole(&schema, None, &json!({ "v": good }), Some(json!({ "v": too_long })));
        let names = json!({ "patternProperties": { pattern: { "type": "string" } }, "properties": { "v": { "type": "string" } } });
        whole(&names, None, &json!({ "v": "x" }), Some(json!({ "v": 1 })));
    }
    check(&json!({ "pattern": 5 }), &json!({}), &json!("x"), None);
    check(
        &json!({ "pattern": "^[a-z]+$" }),
        &json!({ "pattern": "^[a-z]+$" }),
        &json!("x"),
        Some(&json!("X1")),
    );
}

/// (B13) A wrong keyword is repaired if it has one possible meaning, and removed otherwise: a property, its repair, a
/// value that passes and, if there is one, a value that does not.
#[test]
fn one_wrong_keyword_takes_nothing_else_away() {
    for line in include_str!("wrong.jsonl").lines() {
        let row: Vec<Value> = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let [property, expected, good, bad @ ..] = row.as_slice() else { panic!("{line}") };
        check(property, expected, good, bad.first());
    }
}

/// (B13, B33) Arguments are an object, also if the schema as a whole is invalid.
#[test]
fn arguments_are_an_object_whatever_the_schema_says() {
    for schema in [
        json!({}),
        json!([]),
        json!(null),
        json!("object"),
        json!(true),
        json!({ "type": "array" }),
        json!({ "type": ["object", "null"], "properties": { "v": { "type": "string" } } }),
        json!({ "type": "object", "properties": { "v": { "type": "string" }, "type": "object" } }),
        json!({ "$schema": "nonsense", "properties": { "v": { "type": "string" } } }),
        json!({ "$schema": 7 }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "properties": { "v": { "items": [{ "type": "string" }] } } }),
        json!({ "$schema": "http://json-schema.org/draft-04/schema#", "id": "x", "properties": {} }),
        json!({ "$id": "not a uri at all", "properties": {} }),
        json!({ "$defs": [], "definitions": null }),
        json!({ "required": null }),
        json!({ "dependentRequired": 5 }),
        json!({ "dependencies": 5 }),
    ] {
        whole(&schema, None, &json!({ "v": "x" }), Some(json!([])));
    }
    let required = json!({ "properties": { "v": { "type": "string", "required": true } } });
    whole(&required, None, &json!({ "v": "x" }), Some(json!({})));
    let notes = mend(&json!({ "properties": { "v": { "type": "float", "pattern": "(" } } })).notes;
    assert_eq!(
        notes,
        [
            "`/properties/v/type`: read as `\"number\"`",
            "`/properties/v/pattern`: not checked: haft cannot read this regular expression",
        ]
    );
}

#[test]
fn large_schemas_are_checked_as_far_as_that_is_quick() {
    let deep = (0..100).fold(
        json!({ "type": "string" }),
        |inner, _| json!({ "type": "object", "properties": { "v": inner } }),
    );
    whole(&deep, None, &json!({ "v": { "v": {} } }), Some(json!({ "v": 1 })));
    let many: Map<String, Value> =
        (0..400).map(|number| (format!("p{number}"), json!({ "pattern": "^a" }))).collect();
    let schema = json!({ "properties": many });
    whole(&schema, None, &json!({ "p0": "a", "p399": "b" }), Some(json!({ "p0": "b" })));
    assert_eq!(mend(&schema).notes.last().unwrap(), "and 92 more of the kind");
    let value = (0..100).fold(json!(1), |inner, _| json!([inner]));
    whole(
        &json!({ "properties": { "v": { "default": value } } }),
        Some(&json!({})),
        &json!({ "v": 1 }),
        None,
    );
}
