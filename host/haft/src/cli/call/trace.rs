//! The host calls of a plugin during one call of its tool, for people and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::terminal::{DIM, FAILED, HEAD, HostCall};
use haft_core::report::shortened;
use haft_core::tool::CallNotes;
use haft_manifest::units::format_size;

/// Maximum number of lines for a person. The JSON has all calls.
const MAX_LINES: usize = 200;

/// Maximum characters of arguments or results on a line.
const MAX_SHOWN: usize = 80;

/// The host calls of a plugin during one call of a tool.
pub(super) struct Trace {
    calls: Vec<HostCall>,
    /// Number of calls that are not recorded.
    more: usize,
    decisions: Vec<String>,
    memory: Option<u64>,
    took: Duration,
}

/// Consecutive equal calls.
struct Run<'a> {
    first: &'a HostCall,
    count: usize,
    took: Duration,
}

impl Trace {
    pub(super) fn new((calls, more): (Vec<HostCall>, usize), notes: &CallNotes, took: Duration) -> Self {
        Self { calls, more, decisions: notes.decisions.clone(), memory: notes.peak_memory, took }
    }

    pub(super) fn page(&self) -> String {
        let memory = self.memory.map(|memory| format!(", {} at most", rounded(memory))).unwrap_or_default();
        let calls = self.calls.len() + self.more;
        let mut page =
            format!("{HEAD}trace{HEAD:#} {}{memory}, {calls} calls of the host\n", milliseconds(self.took));
        let runs = self.runs();
        for run in runs.iter().take(MAX_LINES) {
            run.line(&mut page);
        }
        let left_out = runs.len().saturating_sub(MAX_LINES) + self.more;
        if left_out > 0 {
            // Writing to a `String` cannot fail.
            let _ = writeln!(page, "  {DIM}and {left_out} more{DIM:#}");
        }
        for decision in &self.decisions {
            let refused = decision.starts_with("refused");
            let style = if refused { FAILED } else { DIM };
            let _ = writeln!(page, "  {style}{decision}{style:#}");
        }
        page.trim_end().to_owned()
    }

    /// Returns the trace as data: times in milliseconds, memory in bytes.
    pub(super) fn json(&self) -> Value {
        let call = |call: &HostCall| {
            json!({
                "module": call.module,
                "function": call.function,
                "arguments": call.arguments,
                "result": call.result,
                "begun_ms": call.begun.as_secs_f64() * 1000.0,
                "took_ms": call.took.as_secs_f64() * 1000.0,
            })
        };
        json!({
            "took_ms": self.took.as_secs_f64() * 1000.0,
            "peak_memory": self.memory,
            "calls": self.calls.iter().map(call).collect::<Vec<_>>(),
            "more": self.more,
            "decisions": self.decisions,
        })
    }

    fn runs(&self) -> Vec<Run<'_>> {
        let mut runs: Vec<Run<'_>> = Vec::new();
        for call in &self.calls {
            match runs.last_mut().filter(|run| run.is_of(call)) {
                Some(run) => (run.count, run.took) = (run.count + 1, run.took + call.took),
                None => runs.push(Run { first: call, count: 1, took: call.took }),
            }
        }
        runs
    }
}

impl Run<'_> {
    fn is_of(&self, call: &HostCall) -> bool {
        let first = self.first;
        first.module == call.module
            && first.function == call.function
            && has_failed(&first.result) == has_failed(&call.result)
    }

    fn line(&self, page: &mut String) {
        let HostCall { module, function, arguments, result, begun, .. } = self.first;
        let times = if self.count > 1 { format!(" ×{}", self.count) } else { String::new() };
        let name = function.split_once(']').map_or(function.as_str(), |(_, name)| name);
        let (begun, took) = (milliseconds(*begun), milliseconds(self.took));
        let _ = write!(page, "  {begun:>9} {took:>9}  {module} {name}{times}");
        if self.count == 1 && !arguments.is_empty() {
            let _ = write!(page, "  {DIM}{}{DIM:#}", shortened(arguments, MAX_SHOWN));
        }
        if has_failed(result) {
            let _ = write!(page, "  {FAILED}{}{FAILED:#}", shortened(result, MAX_SHOWN));
        }
        page.push('\n');
    }
}

fn has_failed(result: &str) -> bool {
    result.starts_with("Err(")
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

/// Returns a size in whole KiB or MiB, rounded up.
fn rounded(bytes: u64) -> String {
    let unit = if bytes < 1 << 20 { 1 << 10 } else { 1 << 20 };
    format_size(bytes.div_ceil(unit) * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::terminal::written;

    fn call(function: &str, result: &str) -> HostCall {
        let (module, took) = ("types".to_owned(), Duration::from_millis(1));
        HostCall { module, function: function.into(), result: result.into(), took, ..HostCall::default() }
    }

    #[test]
    fn equal_calls_are_one_line_and_failures_are_told() {
        let calls = vec![
            call("[method]output-stream.write", "Ok(())"),
            call("[method]output-stream.write", "Ok(())"),
            call("[method]descriptor.open-at", "Err(NotPermitted)"),
        ];
        let notes = CallNotes {
            peak_memory: Some(1 << 20),
            decisions: vec!["refused x".into()],
            ..CallNotes::default()
        };
        let trace = Trace::new((calls, 2), &notes, Duration::from_millis(4));
        let page = written(&trace.page(), false);
        let lines: Vec<&str> = page.lines().map(str::trim).collect();
        assert_eq!(lines[0], "trace 4.00 ms, 1MiB at most, 5 calls of the host");
        assert_eq!(lines[1], "0.00 ms   2.00 ms  types output-stream.write ×2");
        assert_eq!(lines[2], "0.00 ms   1.00 ms  types descriptor.open-at  Err(NotPermitted)");
        assert_eq!(lines[3..], ["and 2 more", "refused x"]);
        assert_eq!(trace.json()["calls"].as_array().unwrap().len(), 3);
    }
}
