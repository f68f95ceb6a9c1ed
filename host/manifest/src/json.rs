//! Values of TOML that are passed on as JSON. What JSON cannot say is refused, not bent.

use serde_json::{Map, Number, Value};
use toml::de::DeValue;

use super::entry::Entry;

/// Deeper than any request body is; keeps the recursion below bounded.
const MAX_DEPTH: usize = 32;

/// The value as JSON.
pub(super) fn value(entry: &Entry<'_>) -> Option<Value> {
    convert(entry, MAX_DEPTH)
}

/// A table as a JSON object.
pub(super) fn object(entry: &Entry<'_>) -> Option<Map<String, Value>> {
    object_within(entry, MAX_DEPTH)
}

fn convert(entry: &Entry<'_>, depth: usize) -> Option<Value> {
    let Some(depth) = depth.checked_sub(1) else {
        return entry.reject("nested too deeply");
    };
    match entry.raw() {
        DeValue::String(text) => Some(Value::String(text.to_string())),
        DeValue::Boolean(flag) => Some(Value::Bool(*flag)),
        DeValue::Integer(integer) => {
            let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
            number.map(Value::from).or_else(|| entry.reject("the number is too large"))
        }
        DeValue::Float(float) => {
            let number = float.as_str().parse().ok().and_then(Number::from_f64);
            number.map(Value::Number).or_else(|| entry.reject("JSON has no such number"))
        }
        DeValue::Datetime(_) => entry.reject("JSON has no dates: write a string"),
        DeValue::Array(_) => entry.list(|item| convert(item, depth)).map(Value::Array),
        DeValue::Table(_) => object_within(entry, depth).map(Value::Object),
    }
}

fn object_within(entry: &Entry<'_>, depth: usize) -> Option<Map<String, Value>> {
    let entries = entry.entries()?;
    Some(entries.iter().filter_map(|(key, item)| Some((key.value.clone(), convert(item, depth)?))).collect())
}
