//! Calls with random arguments that fit a tool's schema. Whatever they are, a tool answers or says why it cannot: one that
//! traps, runs out of its time or memory, or answers what its own schema forbids is a finding, told with the smallest
//! arguments that still bring it.

mod generate;
mod shrink;

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use super::bench::Bench;
use haft_core::call::ToolDef;
use haft_core::limit::Limits;
use haft_core::tool::Schema;

/// The beginning of an error that is haft's own, which no guest can write.
const BY_HOST: &str = "Tool error (haft): ";

/// What one call may take: a tool that needs longer for random arguments is a finding.
const TIME: Duration = Duration::from_secs(5);

/// Calls that look for smaller arguments.
const MAX_SHRINKING: usize = 300;

/// Arguments made for one call: a schema may want what is hardly ever met by chance.
const MAX_TRIES: usize = 50;

/// What was found out about a tool.
#[derive(Debug)]
pub enum Searched {
    /// So many calls brought nothing.
    Nothing(usize),
    /// No arguments that fit the schema could be made.
    NoArguments,
    /// A call that ended in a way that no call should.
    Finding(Finding),
}

/// A call that ended in a way that no call should.
#[derive(Debug)]
pub struct Finding {
    /// Its arguments, the smallest that were found.
    pub arguments: Value,
    /// How it ended.
    pub end: String,
    /// Calls until it was found.
    pub calls: usize,
}

/// Makes `count` calls of `tool` with arguments that are a function of `seed` alone.
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

/// How the call ended, where it should not have ended so.
async fn bad_end(bench: &Bench, tool: &ToolDef, arguments: &Value) -> anyhow::Result<Option<String>> {
    let limits = bench.limits();
    let limits = Limits { time: limits.time.min(TIME), ..limits };
    let result = bench.bare_call(&tool.name, arguments, limits).await?;
    let end = result.content.strip_prefix(BY_HOST).filter(|_| result.is_error);
    Ok(end.map(|end| end.lines().next().unwrap_or_default().to_owned()))
}

/// The smallest arguments that still end badly, as far as trying one smaller value after the other finds them.
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
    /// The finding as data.
    pub fn json(&self) -> Value {
        json!({ "arguments": self.arguments, "end": self.end, "calls": self.calls })
    }
}
