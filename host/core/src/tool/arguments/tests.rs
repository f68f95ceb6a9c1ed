use serde_json::json;

use super::*;

fn check(schema: &Value, arguments: &Value) -> String {
    let schema = Schema::compile(schema).unwrap();
    schema.check(arguments).map_or_else(|error| error.to_string(), |()| "ok".into())
}

#[test]
fn mistakes_name_the_place() {
    let schema = json!({
        "type": "object",
        "properties": { "path": { "type": "string" }, "lines": { "type": "array", "items": { "type": "integer" } } },
        "required": ["path"],
        "additionalProperties": false
    });
    assert_eq!(check(&schema, &json!({ "path": "x" })), "ok");
    assert_eq!(check(&schema, &json!({})), "`path` is required");
    assert_eq!(check(&schema, &json!({ "path": 1 })), "at `/path`: 1 is not of type \"string\"");
    assert!(check(&schema, &json!({ "path": "x", "lines": [1, "2"] })).starts_with("at `/lines/1`: "));
    assert_eq!(
        check(&schema, &json!({ "path": "x", "pth": 1 })),
        "unknown argument `pth`: did you mean `path`?"
    );
    assert_eq!(
        check(&schema, &json!({ "path": "x", "args": [] })),
        "unknown argument `args`: expected `path`, `lines`"
    );
}

#[test]
fn of_alternatives_the_one_meant_is_told() {
    let tag = |tag: &str, val: Value| json!({ "type": "object", "properties": { "tag": { "enum": [tag] }, "val": val } });
    let schema = json!({ "type": "object", "properties": {
        "n": { "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": "^[0-9]+$" }] },
        "v": { "oneOf": [tag("a", json!({ "type": "string" })), tag("b", json!({ "type": "integer" }))] },
    } });
    assert_eq!(check(&schema, &json!({ "n": -1 })), "at `/n`: -1 is less than the minimum of 0");
    assert!(check(&schema, &json!({ "n": "x" })).starts_with("at `/n`: \"x\" does not match"));
    assert_eq!(
        check(&schema, &json!({ "n": null })),
        "at `/n`: null is not one of: an integer of at least 0; a string"
    );
    assert_eq!(
        check(&schema, &json!({ "v": { "tag": "b", "val": "c" } })),
        "at `/v/val`: \"c\" is not of type \"integer\""
    );
}

/// A keyword that depends on the draft, and a schema whose compilation may take long, need more than draft 7.
#[test]
fn a_plain_schema_means_the_same_in_every_draft() {
    let of = |property: Value| json!({ "type": "object", "properties": { "p": property }, "additionalProperties": false });
    for plain in
        [json!({}), json!(true), json!({ "anyOf": [{ "enum": [1] }, { "items": { "type": "string" } }] })]
    {
        assert!(Schema::compiles_quickly(&of(plain.clone())), "{plain}");
    }
    let others = [
        json!({ "format": "date" }),
        json!({ "pattern": "^a*$" }),
        json!({ "prefixItems": [{}] }),
        json!({ "items": [{}] }),
        json!({ "not": { "$ref": "#" } }),
        json!({ "properties": [] }),
        json!({ "enum": vec![0; MAX_QUICK] }),
    ];
    for other in others {
        assert!(!Schema::compiles_quickly(&of(other.clone())), "{other}");
    }
}

/// C09: the error for a wrong choice lists the choices.
#[test]
fn all_choices_are_told_within_a_bound() {
    let schema = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
        json!({ "type": "object", "properties": { "e": { "enum": names } } })
    };
    assert_eq!(
        check(&schema(9), &json!({ "e": "x" })),
        r#"at `/e`: "x" is not one of "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8""#
    );
    let many = check(&schema(1000), &json!({ "e": "x" }));
    assert!(many.ends_with(r#""n59" and 940 more (see the schema)"#), "{many}");
    let long = json!({ "type": "object", "properties": { "e": { "enum": vec!["x".repeat(900); 5] } } });
    let long = check(&long, &json!({ "e": "y" }));
    assert!(long.len() < 2500 && long.ends_with("and 3 more (see the schema)"), "{long}");
    assert!(check(&schema(9), &json!({ "e": "x".repeat(5000) })).contains("\"n8\""), "the choices stay");
}

/// C09: the error for a value that is no case of a variant lists all cases, once.
#[test]
fn the_wanted_form_is_told_once() {
    let case = |tag: &str, val: Value| {
        json!({ "type": "object", "additionalProperties": false, "required": ["tag", "val"],
        "properties": { "tag": { "type": "string", "enum": [tag] }, "val": val } })
    };
    let empty = json!({ "type": "object", "additionalProperties": false, "required": ["tag"],
        "properties": { "tag": { "type": "string", "enum": ["empty", "all"] } } });
    let shape = json!({ "anyOf": [
        empty, case("circle", json!({ "type": "number" })), case("named", json!({ "type": "string" })),
    ] });
    let schema = json!({ "type": "object", "properties": { "shape": shape } });
    let expected = r#"is not one of: {"tag": "empty" | "all"}; {"tag": "circle", "val": a number}; {"tag": "named", "val": a string}"#;
    for wrong in [json!({ "tag": "x" }), json!({ "circle": 1 }), json!("circle"), json!(null)] {
        assert_eq!(check(&schema, &json!({ "shape": wrong })), format!("at `/shape`: {wrong} {expected}"));
    }
    assert_eq!(
        check(&schema, &json!({ "shape": { "tag": "circle", "val": "c" } })),
        "at `/shape/val`: \"c\" is not of type \"number\""
    );
}

#[test]
fn a_schema_must_be_one() {
    assert_eq!(Schema::compile(&json!({})).unwrap_err(), SchemaError::NotAnObject);
    assert!(matches!(
        Schema::compile(&json!({ "type": "object", "properties": 1 })),
        Err(SchemaError::Invalid(_))
    ));
    assert!(matches!(
        Schema::compile(&json!({ "type": "object", "$ref": "https://example.com/schema" })),
        Err(SchemaError::Invalid(_))
    ));
}

/// An answer may be of any type, and is checked for its formats too.
#[test]
fn an_answer_is_checked_by_a_schema_of_any_type() {
    let check = |schema: Value, answer: Value| {
        let checked = Schema::of_answer(&schema).unwrap().check(&answer);
        checked.map_or_else(|error| error.to_string(), |()| "ok".into())
    };
    assert_eq!(check(json!({ "type": "array", "items": { "type": "integer" } }), json!([1])), "ok");
    assert_eq!(check(json!({ "enum": ["a", "b"] }), json!("c")), r#""c" is not one of "a", "b""#);
    let date = json!({ "type": "string", "format": "date" });
    assert_eq!(check(date.clone(), json!("2026-02-28")), "ok");
    assert!(check(date, json!("2026-02-31")).contains("date"));
    let closed = json!({ "type": "object", "properties": { "name": {} }, "additionalProperties": false });
    assert_eq!(check(closed, json!({ "nam": 1 })), "unknown property `nam`: did you mean `name`?");
}

#[test]
fn a_schema_of_answers_names_the_place_that_is_wrong() {
    let error = |schema: Value| Schema::of_answer(&schema).unwrap_err();
    let wrong = error(json!({ "type": "object", "properties": { "n": { "type": "int" } } }));
    assert!(
        matches!(&wrong, AnswerSchemaError::Invalid { place, .. } if place == "/properties/n/type"),
        "{wrong}"
    );
    let far = error(json!({ "$ref": "https://example.com/schema" }));
    assert!(matches!(far, AnswerSchemaError::Invalid { .. }), "{far}");
    let deep = (0..100).fold(json!({}), |inner, _| json!({ "items": inner }));
    assert_eq!(error(deep), AnswerSchemaError::TooDeep);
}

#[test]
fn depth_is_bounded() {
    let deep = (0..100).fold(json!({}), |inner, _| json!({ "a": inner }));
    assert!(check(&json!({ "type": "object" }), &deep).contains("deeper than 64"));
}

/// CL04: a secret is not quoted, regardless of the part that does not match.
#[test]
fn what_is_hidden_is_not_quoted() {
    let schema = json!({ "type": "object", "additionalProperties": false, "required": ["region"], "properties": {
        "region": { "type": "string", "enum": ["eu", "us"] }, "a/b~": { "type": "string", "pattern": "^k" },
    }, "not": { "properties": { "a/b~": { "const": "kkk" } }, "required": ["a/b~"] } });
    let schema = Schema::of_configuration(&schema).unwrap();
    let check = |value: Value| {
        schema.check_hiding(&value, &["a/b~"]).map_or_else(|error| error.to_string(), |()| "ok".into())
    };
    assert_eq!(check(json!({ "region": "eu", "a/b~": "key" })), "ok");
    assert_eq!(
        check(json!({ "region": "eu", "a/b~": "hunter2" })),
        "at `/a~1b~0`: the value (a secret) does not match"
    );
    assert_eq!(
        check(json!({ "region": "eu", "a/b~": "kkk" })),
        "the schema does not accept the configuration as a whole"
    );
    assert_eq!(
        check(json!({ "region": "de", "a/b~": "k" })),
        "at `/region`: \"de\" is not one of \"eu\", \"us\""
    );
    assert_eq!(
        check(json!({ "regin": "eu", "a/b~": "k" })),
        "unknown key `regin`: did you mean `region`?; `region` is required"
    );
}

#[test]
fn a_whole_file_is_not_quoted() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    assert!(check(&schema, &json!({ "n": "x".repeat(100_000) })).len() < 1000);
}
