use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn tool(parameters: Value) -> ToolDef {
    ToolDef { name: "t".into(), parameters, ..ToolDef::default() }
}

/// Returns the schema sent for a tool with the argument `a`, and the changes.
fn argument(schema: &Value) -> (Value, Vec<String>) {
    let def = tool(json!({ "type": "object", "properties": { "a": schema } }));
    match mend(&def) {
        Some(mended) => (mended.def.parameters["properties"]["a"].clone(), mended.changes),
        None => (def.parameters["properties"]["a"].clone(), Vec::new()),
    }
}

/// Returns the reason why some vendor rejects `schema`, according to its documentation and
/// responses.
fn refusal(schema: &Value) -> Option<String> {
    if !jsonschema::meta::is_valid(schema) {
        return Some("no JSON Schema 2020-12".into());
    }
    if let Err(error) = jsonschema::draft202012::options().build(schema) {
        return Some(format!("a reference leads nowhere: {error}"));
    }
    refused_part(schema)
}

/// The rules of OpenAI for arrays, and of Anthropic and Gemini for names.
fn refused_part(schema: &Value) -> Option<String> {
    let node = schema.as_object()?;
    let is_array = node.get("type").is_some_and(|kind| kind.to_string().contains("\"array\""));
    if is_array && !node.get("items").is_some_and(Value::is_object) {
        return Some("array schema missing items".into());
    }
    if node.contains_key("prefixItems") {
        return Some("prefixItems".into());
    }
    let properties = node.get("properties").and_then(Value::as_object);
    let fits = |name: &&String| {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        plain
            && (1..=64).contains(&name.len())
            && !name.starts_with(|c: char| !c.is_ascii_alphabetic() && c != '_')
    };
    if let Some(name) = properties.into_iter().flat_map(Map::keys).find(|name| !fits(name)) {
        return Some(format!("property key `{name}`"));
    }
    parts(node).find_map(refused_part)
}

/// Returns the subschemas of a schema.
fn parts(node: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    node.iter().flat_map(|(key, value)| match (key.as_str(), value) {
        (
            "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
            Value::Object(named),
        ) => named.values().collect(),
        ("allOf" | "anyOf" | "oneOf", Value::Array(some)) => some.iter().collect(),
        (
            "items"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "additionalProperties"
            | "unevaluatedItems"
            | "unevaluatedProperties",
            one,
        ) => vec![one],
        _ => Vec::new(),
    })
}

/// G03: names that Anthropic rejects are replaced and mapped back.
#[test]
fn names_are_replaced_and_mapped_back() {
    let long = "x".repeat(80);
    let properties = json!({
        "$filter": { "type": "string" }, "filter": { "type": "string" }, "first name": { "type": "string" },
        "größe": { "type": "integer" }, "日本": {}, &long: {}, "1st": {},
        "list": { "type": "array", "items": { "type": "object", "properties": { "a/b": {} }, "required": ["a/b"] } },
    });
    let def = tool(json!({ "type": "object", "properties": properties, "required": ["$filter", "filter"] }));
    let mended = mend(&def).unwrap();
    let schema = &mended.def.parameters;
    assert_eq!(refusal(schema), None, "{schema}");
    let names: Vec<_> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let short = "x".repeat(56);
    let expected = ["filter_2", "filter", "first_name", "gr__e", "arg", &short, "arg_1st", "list"];
    assert_eq!(names, expected);
    assert_eq!(schema["required"], json!(["filter_2", "filter"]));
    assert!(
        mended.changes.contains(&"the schema: `$filter` is called `filter_2`".to_owned()),
        "{:?}",
        mended.changes
    );
    let sent = json!({ "filter_2": "f", "filter": "g", "gr__e": 3, "list": [{ "a_b": { "x": 1 } }] });
    let meant = json!({ "$filter": "f", "filter": "g", "größe": 3, "list": [{ "a/b": { "x": 1 } }] });
    assert_eq!(mended.restore(sent), meant);
}

/// G03: schemas that OpenAI rejects with 400, and keywords of older drafts, are corrected, and each change is
/// reported.
#[test]
fn what_a_vendor_refuses_is_mended_and_told() {
    let rows = [
        (json!({ "type": "array" }), json!({ "type": "array", "items": {} }), "`items` is added"),
        (
            json!({ "type": ["array", "null"] }),
            json!({ "type": ["array", "null"], "items": {} }),
            "`items` is added",
        ),
        (
            json!({ "type": "array", "prefixItems": [{ "type": "string" }, { "type": "integer" }] }),
            json!({ "type": "array", "items": { "anyOf": [{ "type": "string" }, { "type": "integer" }] } }),
            "a list of 2 different items",
        ),
        (
            json!({ "type": "array", "items": [{ "type": "string" }, { "type": "string" }] }),
            json!({ "type": "array", "items": { "type": "string" } }),
            "a list of 2",
        ),
        (json!({ "type": "any" }), json!({}), "`type` was \"any\""),
        (
            json!({ "type": "string", "required": true }),
            json!({ "type": "string" }),
            "`required` was not a list of names",
        ),
        (
            json!({ "type": "number", "minimum": 3, "exclusiveMinimum": true }),
            json!({ "type": "number", "minimum": 3, "exclusiveMinimum": 3 }),
            "`exclusiveMinimum` was true",
        ),
        (json!({ "enum": [] }), json!({}), "`enum` is left out"),
        (json!({ "$ref": "https://example.com/x.json" }), json!({}), "`$ref` is left out"),
        (json!({ "$ref": "#/$defs/gone" }), json!({}), "`$ref` is left out"),
        (json!({ "anyOf": [] }), json!({}), "`anyOf` is left out"),
        (json!("string"), json!({}), "is not a schema"),
    ];
    for (schema, expected, told) in rows {
        let (mended, changes) = argument(&schema);
        assert_eq!(mended, expected, "{schema}");
        assert!(
            changes.iter().any(|change| change.starts_with("a: ") && change.contains(told)),
            "{changes:?}"
        );
    }
}

/// G03: references stay, are expanded, or are cut if endless.
#[test]
fn references_lead_somewhere() {
    let node = json!({ "type": "object", "properties": { "next": { "$ref": "#/$defs/node" } } });
    let fine = tool(
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/node" } }, "$defs": { "node": node } }),
    );
    assert_eq!(mend(&fine), None);
    let inside = tool(json!({ "type": "object", "properties": {
        "a": { "type": "object", "properties": { "deep": { "$ref": "#/properties/a" } } } } }));
    let mended = mend(&inside).unwrap();
    assert_eq!(refusal(&mended.def.parameters), None, "{}", mended.def.parameters);
    assert!(mended.changes.iter().any(|change| change.contains("without end")), "{:?}", mended.changes);
    let looped = tool(json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/x" } },
        "$defs": { "x": { "$ref": "#/$defs/y" }, "y": { "$ref": "#/$defs/x" } } }));
    let mended = mend(&looped).unwrap();
    assert_eq!(refusal(&mended.def.parameters), None, "{}", mended.def.parameters);
}

#[test]
fn a_schema_that_all_take_stays_as_it_is() {
    let schema = json!({ "type": "object", "additionalProperties": false, "required": ["a"],
        "properties": { "a": { "type": ["string", "null"], "format": "uri", "maxLength": 9, "x-own": [1] },
            "list": { "type": "array", "items": { "enum": [1, null] }, "uniqueItems": true } } });
    assert_eq!(mend(&tool(schema.clone())), None);
    let mut dated = schema;
    dated["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    assert_eq!(mend(&tool(dated.clone())), None);
    dated["$schema"] = "https://example.com/own".into();
    let mended = mend(&tool(dated)).unwrap();
    assert_eq!((mended.changes.len(), mended.def.parameters.get("$schema")), (0, None), "not worth a word");
    assert_eq!(mend(&tool(Value::Null)).unwrap().def.parameters, json!({}));
}

#[test]
fn depth_and_size_have_bounds() {
    let mut deep = json!({ "type": "string" });
    for _ in 0..200 {
        deep = json!({ "type": "object", "properties": { "a": deep } });
    }
    let mended = mend(&tool(deep)).unwrap();
    assert!(mended.def.parameters.to_string().len() < 2000);
    let wide: Map<String, Value> =
        (0..10_000).map(|n| (format!("a {n}"), json!({ "type": "string" }))).collect();
    let mended = mend(&tool(json!({ "type": "object", "properties": wide }))).unwrap();
    assert_eq!((mended.changes.len(), refusal(&mended.def.parameters)), (17, None));
}

/// Any valid or invalid schema.
fn anything() -> impl Strategy<Value = Value> {
    let words =
        ["type", "string", "array", "object", "any", "#/$defs/a", "#/properties/a", "#", "x y", "$id", "1"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..5_i64).prop_map(Value::from),
        any::<f32>().prop_map(|number| json!(number)),
        prop::sample::select(words.to_vec()).prop_map(Value::from),
    ];
    let keys = [
        "type",
        "properties",
        "required",
        "items",
        "prefixItems",
        "$ref",
        "$defs",
        "definitions",
        "anyOf",
        "allOf",
        "oneOf",
        "not",
        "enum",
        "const",
        "default",
        "minimum",
        "exclusiveMaximum",
        "maxLength",
        "pattern",
        "format",
        "additionalProperties",
        "patternProperties",
        "dependencies",
        "$schema",
        "$id",
        "id",
        "a",
        "b c",
        "größe",
        "",
        "if",
        "then",
        "contains",
        "propertyNames",
        "uniqueItems",
        "multipleOf",
        "examples",
        "$dynamicRef",
        "title",
    ];
    leaf.prop_recursive(5, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(keys.to_vec()), inner), 0..6).prop_map(|members| {
                members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    /// G03: every vendor accepts the schema sent for any schema of a server.
    #[test]
    fn every_vendor_takes_what_is_left_of_any_schema(schema in anything()) {
        let def = tool(json!({ "type": "object", "properties": { "a": schema }, "$defs": { "a": { "type": "string" } } }));
        let mended = mend(&def).map_or(def, |mended| mended.def);
        prop_assert_eq!(refusal(&mended.parameters), None, "{}", mended.parameters);
        prop_assert_eq!(mend(&mended), None, "mended twice");
    }
}
