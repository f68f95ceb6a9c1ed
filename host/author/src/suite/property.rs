//! Calls with random arguments that match a tool's schema. A tool must answer or report an error: a trap, an
//! exceeded limit on time or memory, or a result that violates the tool's output schema is a finding. It is
//! reported with the smallest arguments that reproduce it.

mod generate;
mod shrink;

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

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

/// Shrinks the arguments of a finding, by one smaller value after another.
async fn smallest(
    bench: &Bench,
    tool: &ToolDef,
    found: (Value, String),
    fits: impl Fn(&Value) -> bool,
) -> anyhow::Result<(Value, String)> {
    let (mut arguments, mut end) = found;
    let mut calls = 0;
    'smaller: loop {
        for smaller in shrink::smaller(&arguments).into_iter().filter(|value| fits(value)) {
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
