//! Receives the operations of haft, which threads of the library export in batches. Data that cannot be sent is
//! dropped: no call waits for it. Queues are bounded (`OTEL_BSP_MAX_QUEUE_SIZE`, by default 2,048 spans).

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::{
    Span, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span as SdkSpan};
use prometheus::{Registry, TextEncoder};

use crate::metrics::{Measure, Metrics};
use crate::names;
use crate::sender::Sender;
use crate::settings::{METRICS, Settings, TRACES};
use haft_core::tool::{Keep, clip};
use haft_core::trace::{Ended, Gauge, Operation, Reading, Recorder, Recording, Trace, TraceParent, Wire};

/// The timeout of the last export.
const CLOSING: Duration = Duration::from_secs(3);

/// The export of haft's operations by the conventions of OpenTelemetry. Clones are equivalent.
#[derive(Clone, Debug)]
pub struct Telemetry {
    tracing: SdkTracerProvider,
    measuring: SdkMeterProvider,
    recorder: Arc<OwnRecorder>,
    registry: Option<Registry>,
}

#[derive(Debug)]
struct OwnRecorder {
    tracer: SdkTracer,
    metrics: Arc<Metrics>,
}

/// Why telemetry cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The settings are invalid for an exporter.
    #[error("telemetry cannot be sent: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// The reader for Prometheus cannot be made.
    #[error("metrics are not available: {0}")]
    Scraped(#[from] OTelSdkError),
    /// The HTTP client cannot be made.
    #[error("telemetry cannot be sent: {0}")]
    Client(String),
}

impl Telemetry {
    /// Starts the export. Must be called inside a runtime, which sends the data.
    ///
    /// # Errors
    /// The settings are invalid, or a client cannot be made.
    pub fn start(settings: &Settings) -> Result<Self, TelemetryError> {
        let sender = Sender::new(&settings.headers).map_err(TelemetryError::Client)?;
        let resource = resource(settings);
        let mut tracing = SdkTracerProvider::builder().with_resource(resource.clone());
        if settings.sends(TRACES) {
            let exporter = SpanExporter::builder().with_http().with_http_client(sender.clone());
            let exporter = match settings.address(TRACES) {
                Some(address) => exporter.with_endpoint(address),
                None => exporter,
            };
            tracing = tracing.with_batch_exporter(exporter.build()?);
        }
        let mut measuring = SdkMeterProvider::builder().with_resource(resource);
        if settings.sends(METRICS) {
            let exporter = MetricExporter::builder().with_http().with_http_client(sender);
            let exporter = match settings.address(METRICS) {
                Some(address) => exporter.with_endpoint(address),
                None => exporter,
            };
            measuring = measuring.with_periodic_exporter(exporter.build()?);
        }
        let registry = settings.is_scraped.then(Registry::new);
        if let Some(registry) = &registry {
            let reader = opentelemetry_prometheus::exporter().with_registry(registry.clone());
            measuring = measuring.with_reader(reader.build()?);
        }
        let (tracing, measuring) = (tracing.build(), measuring.build());
        let metrics = Arc::new(Metrics::new(&measuring.meter("haft")));
        let recorder = Arc::new(OwnRecorder { tracer: tracing.tracer("haft"), metrics });
        Ok(Self { tracing, measuring, recorder, registry })
    }

    /// Returns the trace that records operations here.
    pub fn trace(&self) -> Trace {
        Trace::to(self.recorder.clone())
    }

    /// Returns the current metrics in Prometheus's text format; `None` if they are not served.
    pub(crate) fn exposition(&self) -> Option<String> {
        let metrics = self.registry.as_ref()?.gather();
        TextEncoder::new().encode_to_string(&metrics).ok()
    }

    /// Exports the remaining data within a few seconds, and nothing after it.
    pub async fn close(self) {
        let Self { tracing, measuring, .. } = self;
        // The threads of the library wait for the runtime, which must not wait for them.
        let closing = tokio::task::spawn_blocking(move || {
            let ended = [tracing.shutdown_with_timeout(CLOSING), measuring.shutdown_with_timeout(CLOSING)];
            ended
                .into_iter()
                .filter_map(Result::err)
                .for_each(|error| tracing::debug!(%error, "telemetry is lost"));
        });
        if tokio::time::timeout(CLOSING * 2, closing).await.is_err() {
            tracing::debug!("telemetry is lost: it could not be sent in time");
        }
    }
}

/// Returns the resource of this process. The library adds the environment variables.
fn resource(settings: &Settings) -> Resource {
    let builder = Resource::builder();
    let builder = match settings.service_name() {
        Some(name) => builder.with_service_name(name),
        None => builder,
    };
    builder.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))).build()
}

impl Recorder for OwnRecorder {
    fn begin(&self, operation: &Operation<'_>, parent: Option<&TraceParent>) -> Box<dyn Recording> {
        let Told { name, kind, measure, dimensions, more } = Told::of(operation);
        let attributes = dimensions.iter().cloned().chain(more);
        let builder = SpanBuilder::from_name(name).with_kind(kind).with_attributes(attributes);
        let none = Context::new();
        let within = parent.map(|parent| none.with_remote_span_context(context(parent)));
        let span = self.tracer.build_with_context(builder, within.as_ref().unwrap_or(&none));
        let metrics = self.metrics.clone();
        Box::new(OwnRecording { span, metrics, measure, dimensions, begun: Instant::now() })
    }

    fn watch(&self, gauge: Gauge, reading: Reading) {
        self.metrics.watch(gauge, reading);
    }
}

// An operation under way: its span, and its measurements at the end.

/// The maximum number of characters of a value: names have some dozens, ids of others any number.
const MAX_TEXT: usize = 200;

/// The method in the conventions.
const TOOLS_CALL: &str = "tools/call";

struct OwnRecording {
    span: SdkSpan,
    metrics: Arc<Metrics>,
    measure: Option<Measure>,
    /// The attributes of measurements: none with many values.
    dimensions: Vec<KeyValue>,
    begun: Instant,
}

/// The conversion of an operation.
struct Told {
    name: String,
    kind: SpanKind,
    measure: Option<Measure>,
    dimensions: Vec<KeyValue>,
    /// Further attributes of the span.
    more: Vec<KeyValue>,
}

impl Told {
    fn of(operation: &Operation<'_>) -> Self {
        match operation {
            Operation::Served { tool, request, protocol, over } => {
                let protocol = protocol.map(|version| text(names::PROTOCOL_VERSION, version));
                let dimensions = [of_tool(tool), of_wire(*over), protocol.into_iter().collect()].concat();
                let kind = SpanKind::Server;
                let measure: Option<Measure> = Some(|metrics| &metrics.served);
                let more = vec![text(names::REQUEST_ID, request)];
                Self { name: named(TOOLS_CALL, tool), kind, measure, dimensions, more }
            }
            Operation::Remote { tool, server, over } => {
                let server = vec![text(names::SERVER_NAME, server)];
                let dimensions = [of_tool(tool), of_wire(*over), server].concat();
                let kind = SpanKind::Client;
                let measure: Option<Measure> = Some(|metrics| &metrics.remote);
                Self { name: named(TOOLS_CALL, tool), kind, measure, dimensions, more: Vec::new() }
            }
            Operation::Tool { tool, call } => Self::internal(
                named("execute_tool", tool),
                texts(&[
                    (names::OPERATION, "execute_tool"),
                    (names::TOOL_NAME, tool),
                    (names::TOOL_TYPE, "function"),
                    (names::TOOL_CALL_ID, call),
                ]),
            ),
            Operation::Chat { provider, model } => {
                let kind = SpanKind::Client;
                let measure: Option<Measure> = Some(|metrics| &metrics.chat);
                let dimensions = of_model("chat", provider, model);
                Self { name: named("chat", model), kind, measure, dimensions, more: Vec::new() }
            }
            Operation::Agent { name, provider, model } => {
                let mut more = of_model("invoke_agent", provider, model);
                more.extend(name.map(|name| text(names::AGENT_NAME, name)));
                Self::internal(named("invoke_agent", name.unwrap_or_default()), more)
            }
        }
    }

    /// Returns an operation inside haft, which is not measured.
    fn internal(name: String, more: Vec<KeyValue>) -> Self {
        Self { name, kind: SpanKind::Internal, measure: None, dimensions: Vec::new(), more }
    }
}

/// Returns the attributes of every request to a model.
fn of_model(operation: &str, provider: &str, model: &str) -> Vec<KeyValue> {
    let provider = vendor(provider);
    texts(&[(names::OPERATION, operation), (names::PROVIDER, provider), (names::REQUEST_MODEL, model)])
}

/// Returns the attributes of every call of a tool.
fn of_tool(tool: &str) -> Vec<KeyValue> {
    let mut attributes = texts(&[(names::METHOD, TOOLS_CALL), (names::OPERATION, "execute_tool")]);
    attributes.extend((!tool.is_empty()).then(|| text(names::TOOL_NAME, tool)));
    attributes
}

fn of_wire(over: Wire) -> Vec<KeyValue> {
    match over {
        Wire::Streams => texts(&[(names::TRANSPORT, "pipe")]),
        Wire::Http => texts(&[(names::TRANSPORT, "tcp"), (names::PROTOCOL_NAME, "http")]),
    }
}

/// Returns the name of a provider in the conventions.
fn vendor(provider: &str) -> &str {
    if provider == "gemini" { "gcp.gemini" } else { provider }
}

fn named(operation: &str, target: &str) -> String {
    if target.is_empty() { operation.to_owned() } else { format!("{operation} {target}") }
}

fn texts(pairs: &[(&'static str, &str)]) -> Vec<KeyValue> {
    pairs.iter().map(|(name, value)| text(name, value)).collect()
}

/// Returns an attribute for a name or an outside id, shortened.
fn text(name: &'static str, value: &str) -> KeyValue {
    KeyValue::new(name, clip(value, MAX_TEXT, Keep::Head))
}

impl Recording for OwnRecording {
    fn as_parent(&self) -> TraceParent {
        parent(self.span.span_context())
    }

    fn end(&mut self, ended: &Ended<'_>) {
        if let Some(error) = ended.error {
            // Also a dimension: failures are counted by kind.
            self.dimensions.push(text(names::ERROR_TYPE, error));
            self.span.set_attribute(text(names::ERROR_TYPE, error));
            self.span.set_status(Status::error(error.to_owned()));
        }
        if let Some(model) = ended.model {
            self.dimensions.push(text(names::RESPONSE_MODEL, model));
            self.span.set_attribute(text(names::RESPONSE_MODEL, model));
        }
        if let Some(finish) = ended.finish {
            let reasons = Array::String(vec![StringValue::from(finish.to_owned())]);
            self.span.set_attribute(KeyValue::new(names::FINISH_REASONS, Value::Array(reasons)));
        }
        if let Some(usage) = &ended.usage {
            let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
            self.span.set_attribute(KeyValue::new(names::INPUT_TOKENS, count(usage.input)));
            self.span.set_attribute(KeyValue::new(names::OUTPUT_TOKENS, count(usage.output)));
            self.metrics.used(usage, &self.dimensions);
        }
        if let Some(measure) = self.measure {
            measure(&self.metrics).record(self.begun.elapsed().as_secs_f64(), &self.dimensions);
        }
        self.span.end();
    }
}

fn parent(context: &SpanContext) -> TraceParent {
    let state = context.trace_state().header();
    TraceParent {
        trace: context.trace_id().to_bytes(),
        span: context.span_id().to_bytes(),
        is_sampled: context.is_sampled(),
        state: (!state.is_empty()).then(|| state.into()),
    }
}

fn context(parent: &TraceParent) -> SpanContext {
    use opentelemetry::trace::{SpanId, TraceFlags, TraceId};
    use std::str::FromStr;
    let state = parent.state.as_deref().and_then(|state| TraceState::from_str(state).ok());
    SpanContext::new(
        TraceId::from_bytes(parent.trace),
        SpanId::from_bytes(parent.span),
        if parent.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() },
        true,
        state.unwrap_or_default(),
    )
}
