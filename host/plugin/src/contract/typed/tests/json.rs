//! Random JSON that a schema accepts, and JSON that it may reject.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// JSON that `schema` accepts.
pub(super) fn accepted(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
        return prop::strategy::Union::new(branches.iter().map(accepted)).boxed();
    }
    if let Some(names) = schema.get("enum").and_then(Value::as_array) {
        return prop::sample::select(names.clone()).boxed();
    }
    match &schema["type"] {
        Value::Array(types) => {
            let with = |name: &Value| {
                let mut schema = schema.clone();
                schema["type"] = name.clone();
                accepted(&schema)
            };
            prop::strategy::Union::new(types.iter().map(with)).boxed()
        }
        Value::String(name) => typed(name, schema),
        other => panic!("no type: {other}"),
    }
}

fn typed(name: &str, schema: &Value) -> BoxedStrategy<Value> {
    match name {
        "null" => Just(Value::Null).boxed(),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "integer" => integer(schema),
        "number" => number(),
        "string" => text(schema),
        "array" => array(schema),
        "object" => object(schema),
        other => panic!("unknown type {other}"),
    }
}

fn integer(schema: &Value) -> BoxedStrategy<Value> {
    let bound = |name: &str| {
        let number = &schema[name];
        number.as_i64().map(i128::from)
    };
    // The schema of a 64-bit integer has no bounds; numbers within both types are tried for each.
    let (minimum, maximum) = (bound("minimum").unwrap_or(0), bound("maximum").unwrap_or(i64::MAX.into()));
    let whole = (minimum..=maximum).prop_map(|number| match u64::try_from(number) {
        Ok(number) => Value::from(number),
        Err(_) => Value::from(i64::try_from(number).unwrap()),
    });
    // In JSON Schema `5.0` is a whole number.
    let low = f64::from(i32::try_from(minimum.max(-100)).unwrap());
    let written = (0_u8..=100).prop_map(move |step| json!(low + f64::from(step)));
    prop_oneof![4 => whole, 1 => written].boxed()
}

fn number() -> BoxedStrategy<Value> {
    let largest = f64::from(f32::MAX);
    let large = (-1.0..=1.0).prop_map(move |part: f64| json!(part * largest));
    prop_oneof![large, any::<i64>().prop_map(Value::from), (-1.0..1.0).prop_map(|small: f64| json!(small))]
        .boxed()
}

fn text(schema: &Value) -> BoxedStrategy<Value> {
    let length = schema["maxLength"].as_u64();
    let pattern = match (schema["pattern"].as_str(), length) {
        (Some(pattern), _) => pattern.trim_start_matches('^').trim_end_matches('$').replace(r"\d", "[0-9]"),
        (None, Some(1)) => "(?s:.)".to_owned(),
        (None, _) => "(?s:.){0,8}".to_owned(),
    };
    proptest::string::string_regex(&pattern).unwrap().prop_map(Value::from).boxed()
}

fn array(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(types) = schema["prefixItems"].as_array() {
        return types.iter().map(accepted).collect::<Vec<_>>().prop_map(Value::Array).boxed();
    }
    let items = accepted(&schema["items"]);
    let count = |name: &str| schema[name].as_u64().map(|count| usize::try_from(count).unwrap());
    let counts = count("minItems").unwrap_or(0)..=count("maxItems").unwrap_or(4);
    let is_set = schema["uniqueItems"] == true;
    prop::collection::vec(items, counts)
        .prop_map(move |mut items| {
            if is_set {
                let mut seen = Vec::new();
                items.retain(|item| {
                    !seen.contains(item) && {
                        seen.push(item.clone());
                        true
                    }
                });
            }
            Value::Array(items)
        })
        .boxed()
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    let Some(properties) = schema["properties"].as_object() else {
        let values = accepted(&schema["additionalProperties"]);
        let entries = prop::collection::btree_map(".{0,4}", values, 0..4);
        return entries.prop_map(|entries| Value::Object(entries.into_iter().collect())).boxed();
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let property = |(name, schema): (&String, &Value)| {
        let is_required = required.iter().any(|other| other.as_str() == Some(name.as_str()));
        let name = name.clone();
        let present = if is_required { Just(true).boxed() } else { any::<bool>().boxed() };
        (present, accepted(schema)).prop_map(move |(present, value)| present.then(|| (name.clone(), value)))
    };
    let all: Vec<_> = properties.iter().map(property).collect();
    all.prop_map(|entries| Value::Object(entries.into_iter().flatten().collect())).boxed()
}

/// Returns the JSON with one random change.
pub(super) fn mutated(json: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    (json, any::<prop::sample::Index>(), change())
        .prop_map(|(mut json, place, change)| {
            let count = count(&json);
            let mut left = place.index(count);
            replace(&mut json, &mut left, &change);
            json
        })
        .boxed()
}

/// Returns a change: a replacement, or the old value with additions.
fn change() -> BoxedStrategy<Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-300_i16..300).prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "[0-9]{1,21}".prop_map(Value::from),
        "[A-Za-z0-9+/]{0,5}={0,2}".prop_map(Value::from),
        ".{0,3}".prop_map(Value::from),
        prop::sample::select(vec!["NaN", "Infinity", "ok", "tag"]).prop_map(Value::from),
    ];
    let inner = scalar.clone();
    prop_oneof![
        6 => scalar,
        1 => prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
        2 => (prop::sample::select(vec!["some", "ok", "err", "tag", "val", "base64", "x"]), inner)
            .prop_map(|(name, value)| Value::Object(Map::from_iter([(name.to_owned(), value)]))),
    ]
    .boxed()
}

fn count(json: &Value) -> usize {
    1 + match json {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(entries) => entries.values().map(count).sum(),
        _ => 0,
    }
}

fn replace(json: &mut Value, left: &mut usize, change: &Value) {
    if *left == 0 {
        *json = change.clone();
        *left = usize::MAX;
        return;
    }
    *left -= 1;
    let inner: Vec<&mut Value> = match json {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(entries) => entries.values_mut().collect(),
        _ => Vec::new(),
    };
    for value in inner {
        if *left == usize::MAX {
            return;
        }
        replace(value, left, change);
    }
}
