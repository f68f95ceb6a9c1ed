//! Shrinks a value: returns simpler values, the smallest first.

use serde_json::{Map, Value};

/// Returns values that are one step smaller; none for a minimal value. Every chain of steps ends.
pub(super) fn smaller(value: &Value) -> Vec<Value> {
    match value {
        Value::Null | Value::Bool(false) => Vec::new(),
        Value::Bool(true) => vec![Value::Bool(false)],
        Value::Number(number) => {
            let whole = number
                .as_i64()
                .map(integers)
                .or_else(|| number.as_u64().map(|number| vec![0.into(), (number / 2).into()]));
            whole.unwrap_or_else(|| fractions(number.as_f64().unwrap_or_default()))
        }
        Value::String(text) => texts(text).into_iter().map(Value::String).collect(),
        Value::Array(items) => lists(items).into_iter().map(Value::Array).collect(),
        Value::Object(parts) => objects(parts).into_iter().map(Value::Object).collect(),
    }
}

/// Returns numbers nearer to 0; a positive number is smaller than its negation.
fn integers(number: i64) -> Vec<Value> {
    let mut smaller = vec![0, number / 2];
    smaller.extend(number.checked_neg().filter(|opposite| *opposite > 0));
    smaller.push(number - number.signum());
    smaller.into_iter().filter(|other| *other != number).map(Value::from).collect()
}

fn fractions(number: f64) -> Vec<Value> {
    if number == 0.0 {
        return Vec::new();
    }
    vec![if number.fract() == 0.0 { 0.into() } else { number.trunc().into() }]
}

/// Returns the empty text, each half, the text without each of its first characters, and the text with one `a`
/// more.
fn texts(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let Some(half) = characters.len().checked_sub(1).map(|last| last / 2 + 1) else { return Vec::new() };
    let mut smaller = vec![String::new()];
    if characters.len() > 1 {
        let (first, second) = characters.split_at(half);
        smaller.extend([first.iter().collect(), second.iter().collect()]);
        smaller.extend(
            (0..characters.len().min(8)).map(|left_out| without(&characters, left_out).into_iter().collect()),
        );
    }
    if let Some(odd) = characters.iter().position(|c| *c != 'a') {
        let plainer = characters.iter().enumerate().map(|(index, c)| if index == odd { 'a' } else { *c });
        smaller.push(plainer.collect());
    }
    smaller
}

/// Returns the empty list, its first half, the list without each element, and with each element smaller.
fn lists(items: &[Value]) -> Vec<Vec<Value>> {
    if items.is_empty() {
        return Vec::new();
    }
    let mut all = vec![Vec::new()];
    if let (Some(half), true) = (items.get(..items.len() / 2), items.len() > 2) {
        all.push(half.to_vec());
    }
    all.extend((0..items.len()).map(|left_out| without(items, left_out)));
    for (index, item) in items.iter().enumerate() {
        all.extend(smaller(item).into_iter().map(|smaller| {
            let mut items = items.to_vec();
            items.splice(index..=index, [smaller]);
            items
        }));
    }
    all
}

/// Returns the object without each property, and with each property smaller.
fn objects(parts: &Map<String, Value>) -> Vec<Map<String, Value>> {
    let mut all = Vec::new();
    for name in parts.keys() {
        let rest = parts.iter().filter(|(other, _)| *other != name);
        all.push(rest.map(|(name, part)| (name.clone(), part.clone())).collect());
    }
    for (name, part) in parts {
        all.extend(smaller(part).into_iter().map(|smaller| {
            let mut parts = parts.clone();
            parts.insert(name.clone(), smaller);
            parts
        }));
    }
    all
}

fn without<T: Clone>(items: &[T], left_out: usize) -> Vec<T> {
    items.iter().enumerate().filter(|(index, _)| *index != left_out).map(|(_, item)| item.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the smallest value that still `fails`, by taking the first failing step each time.
    fn smallest(mut value: Value, fails: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..10_000 {
            let Some(next) = smaller(&value).into_iter().find(|value| fails(value)) else { return value };
            value = next;
        }
        panic!("no end: {value}");
    }

    #[test]
    fn the_smallest_that_still_fails_is_found() {
        let text = json!({ "text": "some long text with a ß in it, and more", "limit": 17, "more": [1, 2] });
        assert_eq!(
            smallest(text.clone(), |value| value["text"].as_str().is_some_and(|text| text.contains('ß'))),
            json!({ "text": "ß" })
        );
        assert_eq!(smallest(text, |value| value["limit"].as_i64() > Some(12)), json!({ "limit": 13 }));
        assert_eq!(
            smallest(json!([-900, 5, -3]), |value| value.as_array().unwrap().len() > 1),
            json!([0, 0])
        );
        assert_eq!(smallest(json!([0.5, true, null, "x", u64::MAX, i64::MIN]), |_| true), json!([]));
    }
}
