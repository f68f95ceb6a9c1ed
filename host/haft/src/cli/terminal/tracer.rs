//! Records the host calls of guests from the tracing spans of wasmtime's bindings: a span for each call, with
//! events for its arguments and its result.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use haft_core::sync::Lock;

/// The name of the bindings' spans.
const SPAN: &str = "wit-bindgen import";

/// Maximum number of recorded calls. Further calls are counted.
const MAX_CALLS: usize = 10_000;

/// Maximum bytes of the arguments or the result of a call, as text.
const MAX_TEXT: usize = 300;

#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct HostCall {
    /// The interface, such as `types`.
    pub(in crate::cli) module: String,
    /// The function, such as `[method]descriptor.open-at`.
    pub(in crate::cli) function: String,
    /// The arguments, as far as they are known.
    pub(in crate::cli) arguments: String,
    /// The result.
    pub(in crate::cli) result: String,
    /// The start of the call, since the first call.
    pub(in crate::cli) begun: Duration,
    /// The duration of the call.
    pub(in crate::cli) took: Duration,
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
    pub(in crate::cli) fn take(&self) -> (Vec<HostCall>, usize) {
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

/// The fields of a span or an event.
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
    impl fmt::Write for Bounded {
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
