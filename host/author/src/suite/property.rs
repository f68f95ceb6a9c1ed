//! Calls with random arguments that match a tool's schema. A tool must answer or report an error: a trap, an
//! exceeded limit on time or memory, or a result that violates the tool's output schema is a finding. It is
//! reported with the smallest arguments that reproduce it.

mod generate;

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::bench::Bench;
use haft_core::call::ToolDef;
use haft_core::limit::Limits;
use haft_core::tool::Schema;

/// The prefix of an error by haft itself, which no guest can produce.
const BY_HOST: &str = "Tool error (haft): ";

/// Time limit of one call: a tool that takes longer for random arguments is a finding.
const TIME: Duration = Duration::from_secs(5);

/// Limit on the calls that search for smaller arguments.
const MAX_SHRINKING: usize = 300;

/// Limit on the generated arguments per call: random values rarely match some schemas.
const MAX_TRIES: usize = 50;

/// The result of a search.
#[derive(Debug)]
pub enum Searched {
    /// No finding in this number of calls.
    Nothing(usize),
    /// No arguments matched the schema.
    NoArguments,
    /// A call with an invalid end.
    Finding(Finding),
}

/// A call with an invalid end.
#[derive(Debug)]
pub struct Finding {
    /// The smallest arguments found.
    pub arguments: Value,
    /// The error.
    pub end: String,
    /// The number of calls up to the finding.
    pub calls: usize,
}

/// Makes `count` calls of `tool` with arguments that depend on `seed` alone.
///
/// # Errors
/// A call could not be made.
pub async fn search(bench: &Bench, tool: &ToolDef, count: usize, seed: u64) -> anyhow::Result<Searched> {
    let mut rng = Rng::with_seed(seed);
    let Ok(schema) = Schema::compile(&tool.parameters) else { return Ok(Searched::NoArguments) };
    let fits = |arguments: &Value| arguments.is_object() && schema.check(arguments).is_ok();
    for calls in 0..count {
        let mut tries = (0..MAX_TRIES).map(|_| generate::value(&tool.parameters, &mut rng));
        let Some(arguments) = tries.find(fits) else {
            return Ok(if calls == 0 { Searched::NoArguments } else { Searched::Nothing(calls) });
        };
        if let Some(end) = bad_end(bench, tool, &arguments).await? {
            let (arguments, end) = smallest(bench, tool, (arguments, end), fits).await?;
            return Ok(Searched::Finding(Finding { arguments, end, calls: calls + 1 }));
        }
    }
    Ok(Searched::Nothing(count))
}

/// Calls the tool; returns the error if the end is invalid.
async fn bad_end(bench: &Bench, tool: &ToolDef, arguments: &Value) -> anyhow::Result<Option<String>> {
    let limits = bench.limits();
    let limits = Limits { time: limits.time.min(TIME), ..limits };
    let result = bench.bare_call(&tool.name, arguments, limits).await?;
    let end = result.content.strip_prefix(BY_HOST).filter(|_| result.is_error);
    Ok(end.map(|end| end.lines().next().unwrap_or_default().to_owned()))
}

/// Reduces the arguments of a finding, by one smaller value after another.
async fn smallest(
    bench: &Bench,
    tool: &ToolDef,
    found: (Value, String),
    fits: impl Fn(&Value) -> bool,
) -> anyhow::Result<(Value, String)> {
    let (mut arguments, mut end) = found;
    let mut calls = 0;
    'smaller: loop {
        for smaller in smaller(&arguments).into_iter().filter(|value| fits(value)) {
            calls += 1;
            if calls > MAX_SHRINKING {
                return Ok((arguments, end));
            }
            if let Some(same) = bad_end(bench, tool, &smaller).await? {
                (arguments, end) = (smaller, same);
                continue 'smaller;
            }
        }
        return Ok((arguments, end));
    }
}

impl Finding {
    /// Returns the finding as JSON.
    pub fn json(&self) -> Value {
        json!({ "arguments": self.arguments, "end": self.end, "calls": self.calls })
    }
}

// Shrinks a value: returns simpler values, the smallest first.

/// Returns values that are one step smaller; none for a minimal value. Every chain of steps ends.
fn smaller(value: &Value) -> Vec<Value> {
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
