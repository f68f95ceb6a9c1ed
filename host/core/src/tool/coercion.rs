//! Converts arguments that have the right value in the wrong type: `"5"` for 5, `5.0` for an integer, an object as
//! JSON text. A value is converted only if the schema rejects it, and only without loss.

use serde_json::{Map, Number, Value};

use crate::json;
use crate::scan::{MAX_VALUES, Scan};

/// Maximum number of visited schemas and values in one call: far more than the arguments of any tool have.
const MAX_STEPS: usize = 40_000;

/// Maximum number of references, and of alternatives' schemas, that are followed for one value.
const MAX_DEPTH: usize = 64;

/// Maximum number of reported changes: as many as a model can learn from.
const MAX_TOLD: usize = 8;

/// 2^64: a larger integer becomes a floating-point number, and loses digits.
const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;

/// Converts `arguments` to the types of `schema` if nothing is lost. Returns the changes as text for the model; a
/// different spelling of a number is not reported.
///
/// # Errors
/// An integer is beyond 64 bits: its digits were lost when it was read.
pub(super) fn coerce(schema: &Value, arguments: &mut Value) -> Result<Vec<String>, String> {
    let mut coercion = Coercion { root: schema, steps: 0, read: 0, told: Vec::new(), inexact: None };
    coercion.value(schema, arguments, &mut String::new(), 0);
    coercion.inexact.map_or(Ok(coercion.told), Err)
}

struct Coercion<'s> {
    root: &'s Value,
    steps: usize,
    /// The number of values in the parsed texts, at most as many as a complete message may have.
    read: usize,
    told: Vec<String>,
    /// The error about the first integer that lost digits.
    inexact: Option<String>,
}

impl<'s> Coercion<'s> {
    fn value(&mut self, schema: &'s Value, value: &mut Value, place: &mut String, depth: usize) {
        self.steps += 1;
        if self.steps > MAX_STEPS || depth > MAX_DEPTH {
            return;
        }
        let Some(keywords) = schema.as_object() else { return };
        let wanted = self.wanted(schema, 0);
        if !wanted.is_empty()
            && let Some(other) = self.converted(value, &wanted)
        {
            if value.is_string() && self.told.len() < MAX_TOLD {
                let kind = kind_of(&other);
                self.told.push(format!(
                    "`{}` was given as text and read as {kind}",
                    place.trim_start_matches('.')
                ));
            }
            *value = other;
        } else if is_rounded(value) && wanted.contains(&"integer") && !wanted.contains(&"number") {
            self.inexact.get_or_insert_with(|| {
                let place = place.trim_start_matches('.');
                format!("`{place}` has more digits than an integer of 64 bits: send a smaller integer, or text where the tool takes text")
            });
        }
        if let Some(target) = self.target(keywords) {
            self.value(target, value, place, depth + 1);
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            for branch in keywords.get(key).and_then(Value::as_array).into_iter().flatten() {
                let kinds = self.wanted(branch, 0);
                if kinds.is_empty() || kinds.iter().any(|kind| is_of(value, kind)) {
                    self.value(branch, value, place, depth + 1);
                }
            }
        }
        self.parts(keywords, value, place, depth);
    }

    fn parts(
        &mut self,
        keywords: &'s Map<String, Value>,
        value: &mut Value,
        place: &mut String,
        depth: usize,
    ) {
        let length = place.len();
        match value {
            Value::Object(fields) => {
                let properties = keywords.get("properties").and_then(Value::as_object);
                for (name, field) in fields {
                    let own =
                        properties.and_then(|all| all.get(name)).or(keywords.get("additionalProperties"));
                    if let Some(own) = own {
                        place.push('.');
                        place.push_str(name);
                        self.value(own, field, place, depth + 1);
                        place.truncate(length);
                    }
                }
            }
            Value::Array(items) => {
                let first = keywords.get("prefixItems").and_then(Value::as_array);
                let rest = keywords.get("items");
                for (index, item) in items.iter_mut().enumerate() {
                    if let Some(own) = first.and_then(|first| first.get(index)).or(rest) {
                        place.push_str("[]");
                        self.value(own, item, place, depth + 1);
                        place.truncate(length);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the types that a schema accepts for a value, also by reference or in alternatives; none if an
    /// alternative accepts everything.
    fn wanted(&mut self, schema: &'s Value, depth: usize) -> Vec<&'s str> {
        self.steps += 1;
        let is_within = depth < 8 && self.steps <= MAX_STEPS;
        let Some(keywords) = schema.as_object().filter(|_| is_within) else { return Vec::new() };
        match keywords.get("type") {
            Some(Value::String(kind)) => return vec![kind],
            Some(Value::Array(kinds)) => return kinds.iter().filter_map(Value::as_str).collect(),
            _ => {}
        }
        if let Some(target) = self.target(keywords) {
            return self.wanted(target, depth + 1);
        }
        let branches = ["anyOf", "oneOf"].iter().find_map(|key| keywords.get(*key)?.as_array());
        let mut all = Vec::new();
        for branch in branches.into_iter().flatten() {
            let own = self.wanted(branch, depth + 1);
            if own.is_empty() {
                return own;
            }
            all.extend(own);
        }
        all
    }

    /// Returns the schema that a reference within the complete schema names.
    fn target(&self, keywords: &Map<String, Value>) -> Option<&'s Value> {
        self.root.pointer(keywords.get("$ref")?.as_str()?.strip_prefix('#')?)
    }

    /// Returns `value` converted to one of the types `wanted`, if it has none of them and the conversion is
    /// lossless.
    fn converted(&mut self, value: &Value, wanted: &[&str]) -> Option<Value> {
        if let Some(number) = value.as_number() {
            let is_wanted = wanted.contains(&"integer") && !wanted.contains(&"number");
            return if is_wanted { integral(number).map(Value::Number) } else { None };
        }
        let text = value.as_str().filter(|_| !wanted.contains(&"string"))?.trim();
        self.read += Scan::from_message(text.as_bytes()).values;
        if self.read > MAX_VALUES {
            return None;
        }
        let parsed = match text {
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            text => json::read(text.as_bytes()).ok()?,
        };
        let parsed = match &parsed {
            Value::Number(number) if !wanted.contains(&"number") => {
                Value::Number(integral(number).unwrap_or(number.clone()))
            }
            _ => parsed,
        };
        let fits = !parsed.is_string() && !parsed.is_null() && wanted.iter().any(|kind| is_of(&parsed, kind));
        fits.then_some(parsed)
    }
}

/// Returns a number that is written with a zero fraction as the integer. Above 2^53 floating-point numbers do not
/// distinguish all integers.
fn integral(number: &Number) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float =
        number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT)?;
    #[expect(clippy::cast_possible_truncation, reason = "checked: it has no fraction and is below 2^53")]
    let integer = float as i64;
    Some(integer.into())
}

fn is_rounded(value: &Value) -> bool {
    value.is_f64() && value.as_f64().is_some_and(|float| float.abs() >= TOO_LARGE)
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        "null" => value.is_null(),
        _ => false,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::Array(_) => "a list",
        _ => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each line has a schema, a value and the converted value.
    const ROWS: &str = include_str!("coercion/values.txt");

    /// (B05, B06): a value is converted to the schema's type if the conversion loses nothing, and the conversion is
    /// reported.
    #[test]
    fn values_become_what_the_schema_asks_for_where_nothing_is_lost() {
        let integer = json!({ "type": "integer" });
        let tree =
            json!({ "type": "object", "properties": { "v": integer, "next": { "$ref": "#/$defs/tree" } } });
        for row in ROWS.lines() {
            let row: Vec<Value> = row.split(" | ").map(|text| serde_json::from_str(text).unwrap()).collect();
            let [schema, given, expected] = row.as_slice() else { panic!("{row:?}") };
            let defs = json!({ "n": integer, "tree": tree });
            let whole = json!({ "type": "object", "properties": { "x": schema }, "$defs": defs });
            let mut arguments = json!({ "x": given });
            let told = coerce(&whole, &mut arguments).unwrap();
            assert_eq!(arguments, json!({ "x": expected }), "{schema}: {given}");
            let is_silent = given == expected || !given.to_string().contains('"');
            assert_eq!(told.is_empty(), is_silent, "{given}: {told:?}");
        }
        let mut arguments = json!({ "x": "1" });
        let told = coerce(&json!({ "properties": { "x": integer } }), &mut arguments).unwrap();
        assert_eq!(told, ["`x` was given as text and read as a number"]);
    }

    #[test]
    fn an_integer_that_lost_digits_is_refused() {
        let schema =
            json!({ "properties": { "ids": { "items": { "type": "integer" } }, "n": { "type": "number" } } });
        let read = |text: &str| json::read(text.as_bytes()).unwrap();
        let refused = coerce(&schema, &mut read(r#"{"ids": [1, 12345678901234567890123]}"#)).unwrap_err();
        assert_eq!(
            refused,
            "`ids[]` has more digits than an integer of 64 bits: send a smaller integer, or text where the tool takes text"
        );
        for text in [r#"{"ids": [18446744073709551615]}"#, r#"{"n": 12345678901234567890123}"#] {
            assert_eq!(coerce(&schema, &mut read(text)), Ok(vec![]), "{text}");
        }
    }

    /// A schema that doubles, or refers to itself, is not followed without end.
    #[test]
    fn a_hostile_schema_ends() {
        let own = json!({ "$ref": "#/$defs/a" });
        let twice = json!({ "allOf": [own, own, { "properties": { "x": own } }] });
        let schema = json!({ "properties": { "x": own }, "$defs": { "a": twice } });
        let mut deep = (0..40).fold(json!("s"), |inner, _| json!({ "x": inner }));
        let before = deep.clone();
        assert!(coerce(&schema, &mut deep).unwrap().is_empty());
        assert_eq!(deep, before);
        // Nested alternatives: a thousand million without the limit.
        let wide = |name: &str| json!({ "anyOf": vec![json!({ "$ref": format!("#/$defs/{name}") }); 1000] });
        let defs = json!({ "a": wide("b"), "b": wide("c"), "c": wide("d"), "d": { "type": "integer" } });
        let schema = json!({ "properties": { "x": wide("a") }, "$defs": defs });
        assert!(coerce(&schema, &mut json!({ "x": "5" })).unwrap().is_empty());
    }

    /// A text has no more values than a message may have.
    #[test]
    fn a_text_of_many_values_stays_one() {
        let schema = json!({ "properties": { "x": { "type": "array" } } });
        let mut arguments = json!({ "x": format!("[{}0]", "0,".repeat(MAX_VALUES)) });
        assert!(coerce(&schema, &mut arguments).unwrap().is_empty() && arguments["x"].is_string());
    }
}
