//! Records the host calls of guests from the tracing spans of wasmtime's bindings, a span for each call with events for its
//! arguments and its result, and shows them for people and as JSON.

use std::collections::HashMap;
use std::fmt::{self, Debug, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::{DIM, FAILED, HEAD};
use haft_core::report::shortened;
use haft_core::sync::Lock;
use haft_core::tool::CallNotes;
use haft_manifest::units::format_size;

/// The name of the bindings' spans.
const SPAN: &str = "wit-bindgen import";

/// Maximum number of recorded calls. Further calls are counted.
const MAX_CALLS: usize = 10_000;

/// Maximum bytes of the arguments or the result of a call, as text.
const MAX_TEXT: usize = 300;

#[derive(Clone, Debug, Default)]
struct HostCall {
    /// The interface, such as `types`.
    module: String,
    /// The function, such as `[method]descriptor.open-at`.
    function: String,
    /// The arguments, as far as they are known.
    arguments: String,
    result: String,
    /// The start of the call, since the first call.
    begun: Duration,
    took: Duration,
}

/// Records the host calls of guests. Clones share the record.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Tracer(Arc<Lock<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    began: Option<Instant>,
    open: HashMap<u64, (HostCall, Instant)>,
    calls: Vec<HostCall>,
    more: usize,
}

impl Tracer {
    /// Returns the layer for the spans and events of bindings.
    pub(super) fn filtered<S: Subscriber + for<'s> LookupSpan<'s>>(self) -> impl Layer<S> {
        self.with_filter(filter_fn(|metadata: &Metadata<'_>| {
            *metadata.level() == Level::TRACE && (metadata.is_event() || metadata.name() == SPAN)
        }))
    }

    /// Removes and returns the calls in their order, and the number of calls that were not recorded.
    fn take(&self) -> (Vec<HostCall>, usize) {
        let mut seen = self.0.lock();
        let (mut calls, more) = (std::mem::take(&mut seen.calls), seen.more);
        calls.sort_by_key(|call| call.begun);
        (calls, more)
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Tracer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let now = Instant::now();
        let mut seen = self.0.lock();
        let begun = now - *seen.began.get_or_insert(now);
        let call =
            HostCall { module: fields.module, function: fields.function, begun, ..HostCall::default() };
        seen.open.insert(id.into_u64(), (call, now));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(span) = context.event_span(event) else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let Some((call, _)) = self.0.lock().open.get_mut(&span.id().into_u64()) {
            match fields.message.as_str() {
                "call" => call.arguments = fields.others,
                _ => call.result = fields.result,
            }
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let mut seen = self.0.lock();
        let Some((mut call, begun)) = seen.open.remove(&id.into_u64()) else { return };
        call.took = begun.elapsed();
        if seen.calls.len() < MAX_CALLS { seen.calls.push(call) } else { seen.more += 1 }
    }
}

#[derive(Default)]
struct Fields {
    module: String,
    function: String,
    message: String,
    result: String,
    /// Fields without a special meaning: `name = value`, separated by commas.
    others: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field.name(), format_args!("{value:?}"));
    }
}

impl Fields {
    fn put(&mut self, name: &str, value: fmt::Arguments<'_>) {
        let text = bounded(value);
        match name {
            "module" => self.module = text,
            "function" => self.function = text,
            "message" => self.message = text,
            "result" => self.result = text,
            // The receiver of a method is a meaningless number.
            "self_" => {}
            _ if self.others.len() < MAX_TEXT => {
                let separator = if self.others.is_empty() { "" } else { ", " };
                self.others = format!("{}{separator}{name} = {text}", self.others);
            }
            _ => {}
        }
    }
}

/// Returns the beginning of a text, without formatting the rest.
fn bounded(value: fmt::Arguments<'_>) -> String {
    struct Bounded(String);
    impl Write for Bounded {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = MAX_TEXT.saturating_sub(self.0.len());
            let end = text.floor_char_boundary(room);
            self.0.push_str(text.get(..end).unwrap_or_default());
            if end < text.len() { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut text = Bounded(String::new());
    if fmt::write(&mut text, value).is_err() {
        text.0.push('…');
    }
    text.0
}

/// Maximum number of lines for a person. The JSON has all calls.
const MAX_LINES: usize = 200;

/// Maximum characters of arguments or results on a line.
const MAX_SHOWN: usize = 80;

/// The host calls of a plugin during one call of a tool.
pub(in crate::cli) struct Trace {
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
    pub(in crate::cli) fn new(tracer: &Tracer, notes: &CallNotes, took: Duration) -> Self {
        let (calls, more) = tracer.take();
        Self { calls, more, decisions: notes.decisions.clone(), memory: notes.peak_memory, took }
    }

    pub(in crate::cli) fn page(&self) -> String {
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
    pub(in crate::cli) fn json(&self) -> Value {
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
        let tracer = Tracer::default();
        *tracer.0.lock() = Seen { calls, more: 2, ..Seen::default() };
        let trace = Trace::new(&tracer, &notes, Duration::from_millis(4));
        let page = written(&trace.page(), false);
        let lines: Vec<&str> = page.lines().map(str::trim).collect();
        assert_eq!(lines[0], "trace 4.00 ms, 1MiB at most, 5 calls of the host");
        assert_eq!(lines[1], "0.00 ms   2.00 ms  types output-stream.write ×2");
        assert_eq!(lines[2], "0.00 ms   1.00 ms  types descriptor.open-at  Err(NotPermitted)");
        assert_eq!(lines[3..], ["and 2 more", "refused x"]);
        assert_eq!(trace.json()["calls"].as_array().unwrap().len(), 3);
    }
}
