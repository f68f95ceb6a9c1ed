//! Generates random values for a JSON Schema: mostly ordinary values, and often edge cases. Handles types,
//! bounds, enums and parts; the caller's check rejects values that violate other keywords.

use fastrand::Rng;
use serde_json::{Map, Number, Value};

/// Limit on nested values.
const MAX_DEPTH: usize = 6;

/// Elements of a list, unless the schema requires more.
const MAX_ITEMS: usize = 6;

/// Maximum number of characters of an ordinary text.
const MAX_TEXT: usize = 20;

/// Characters of a long text.
const LONG_TEXT: usize = 5000;

/// Texts that often expose bugs.
const ODD_TEXTS: &[&str] = &[
    "",
    " ",
    "\0",
    "\n",
    "\u{7f}",
    "é",
    "e\u{301}",
    "🙂",
    "\u{202e}abc",
    "ﬀ",
    "İ",
    "ß",
    "..",
    "../../etc/passwd",
    "/",
    "%s%n",
    "-1",
    "0",
    "NaN",
    "null",
    "true",
    "{}",
    "[",
    "\"",
    "\\",
    "'; --",
    "<b>",
    "1e999",
    "9223372036854775808",
];

/// Generates a value for `schema`, often but not always valid.
pub(super) fn value(schema: &Value, rng: &mut Rng) -> Value {
    of(schema, rng, MAX_DEPTH)
}

fn of(schema: &Value, rng: &mut Rng, depth: usize) -> Value {
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    let choices = |key: &str| schema.get(key).and_then(Value::as_array).filter(|choices| !choices.is_empty());
    if let Some(choice) = choices("enum").and_then(|choices| rng.choice(choices)) {
        return choice.clone();
    }
    if let Some(choice) =
        ["anyOf", "oneOf"].iter().find_map(|key| choices(key)).and_then(|choices| rng.choice(choices))
    {
        return of(choice, rng, depth.saturating_sub(1));
    }
    match kind(schema, rng) {
        "boolean" => Value::Bool(rng.bool()),
        "integer" => integer(schema, rng),
        "number" => number(schema, rng),
        "string" => Value::String(text(schema, rng)),
        "array" => Value::Array(list(schema, rng, depth)),
        "object" => Value::Object(object(schema, rng, depth)),
        _ => Value::Null,
    }
}

/// Returns the type of the value; a random type of several.
fn kind<'s>(schema: &'s Value, rng: &mut Rng) -> &'s str {
    const ANY: &[&str] = &["boolean", "integer", "number", "string", "null"];
    match schema.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => rng.choice(kinds).and_then(Value::as_str).unwrap_or("null"),
        _ if schema.get("properties").is_some() => "object",
        _ if schema.get("items").is_some() => "array",
        _ => rng.choice(ANY).copied().unwrap_or("null"),
    }
}

/// Generates an integer within its bounds: a bound, a value near 0, or any.
fn integer(schema: &Value, rng: &mut Rng) -> Value {
    let bound = |key: &str| {
        schema
            .get(key)
            .and_then(|bound| bound.as_i64().map(i128::from).or_else(|| bound.as_u64().map(i128::from)))
    };
    let least = bound("minimum")
        .or_else(|| bound("exclusiveMinimum").map(|bound| bound + 1))
        .unwrap_or(i128::from(i64::MIN));
    let most = bound("maximum")
        .or_else(|| bound("exclusiveMaximum").map(|bound| bound - 1))
        .unwrap_or(i128::from(i64::MAX))
        .max(least);
    let near = i128::from(rng.i16(-300..300));
    let picked = match rng.u8(0..6) {
        0 => least,
        1 => most,
        2 => rng.i128(least..=most),
        _ => near,
    };
    let picked = picked.clamp(least, most);
    i64::try_from(picked)
        .map(Number::from)
        .or_else(|_| u64::try_from(picked).map(Number::from))
        .map_or(Value::Null, Value::Number)
}

fn number(schema: &Value, rng: &mut Rng) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let least = bound("minimum").unwrap_or(-1e308);
    let most = bound("maximum").unwrap_or(1e308).max(least);
    let picked = match rng.u8(0..6) {
        0 => least,
        1 => most,
        2 => -0.0,
        3 => f64::from(rng.i32(..)) * 1e9,
        _ => (rng.f64() - 0.5) * 1000.0,
    };
    Number::from_f64(picked.clamp(least, most)).map_or(Value::Null, Value::Number)
}

fn text(schema: &Value, rng: &mut Rng) -> String {
    let bound =
        |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|bound| usize::try_from(bound).ok());
    let (least, most) = (bound("minLength").unwrap_or(0), bound("maxLength").unwrap_or(LONG_TEXT));
    let mut text: String = match rng.u8(0..8) {
        0..3 => rng.choice(ODD_TEXTS).copied().unwrap_or_default().to_owned(),
        3 => std::iter::repeat_n(rng.char(..), LONG_TEXT).collect(),
        _ => {
            let count = rng.usize(0..=MAX_TEXT);
            std::iter::repeat_with(|| if rng.u8(0..4) == 0 { rng.char(..) } else { rng.alphanumeric() })
                .take(count)
                .collect()
        }
    };
    let missing = least.saturating_sub(text.chars().count()).min(LONG_TEXT);
    text.extend(std::iter::repeat_n('a', missing));
    text.chars().take(most).collect()
}

fn list(schema: &Value, rng: &mut Rng, depth: usize) -> Vec<Value> {
    let bound =
        |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|bound| usize::try_from(bound).ok());
    let first = schema.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (least, most) = (bound("minItems").unwrap_or(first.len()), bound("maxItems").unwrap_or(MAX_ITEMS));
    let count = if depth == 0 {
        least
    } else {
        rng.usize(least..=most.max(least).min(least.saturating_add(MAX_ITEMS)))
    };
    let item = schema.get("items").filter(|items| items.is_object()).unwrap_or(&Value::Null);
    (0..count.min(LONG_TEXT))
        .map(|index| of(first.get(index).unwrap_or(item), rng, depth.saturating_sub(1)))
        .collect()
}

fn object(schema: &Value, rng: &mut Rng, depth: usize) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut object = Map::new();
    for (name, part) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let is_required = required.iter().any(|required| required == name);
        if is_required || depth > 0 && rng.bool() {
            object.insert(name.clone(), of(part, rng, depth.saturating_sub(1)));
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use haft_core::tool::Schema;

    #[test]
    fn what_is_made_fits_the_usual_schemas_and_is_a_function_of_the_seed() {
        let schema = json!({
            "type": "object",
            "properties": {
                "text": { "type": "string", "minLength": 2, "maxLength": 30 },
                "count": { "type": ["integer", "null"], "minimum": 0, "maximum": u64::MAX },
                "ratio": { "type": "number", "minimum": 0, "maximum": 1 },
                "kind": { "enum": ["a", "b"] },
                "shape": { "anyOf": [
                    { "type": "object", "properties": { "tag": { "const": "x" } }, "required": ["tag"], "additionalProperties": false },
                    { "type": "array", "items": { "type": "boolean" }, "minItems": 1 },
                ] },
            },
            "required": ["text", "shape"],
            "additionalProperties": false,
        });
        let compiled = Schema::compile(&schema).unwrap();
        let (mut one, mut other) = (Rng::with_seed(7), Rng::with_seed(7));
        for _ in 0..500 {
            let made = value(&schema, &mut one);
            assert_eq!(made, value(&schema, &mut other));
            assert!(compiled.check(&made).is_ok(), "{made}");
        }
    }

    #[test]
    fn a_schema_without_end_ends() {
        let mut schema = json!({ "type": "object" });
        for _ in 0..50 {
            schema = json!({ "type": "object", "properties": { "a": schema }, "required": ["a"] });
        }
        let made = value(&schema, &mut Rng::with_seed(1));
        assert!(made.is_object());
        let wide = json!({ "type": "array", "minItems": u64::MAX, "items": { "type": "null" } });
        assert!(value(&wide, &mut Rng::with_seed(1)).as_array().unwrap().len() <= LONG_TEXT);
    }
}
