//! Receives the operations of haft, which threads of the library export in batches. Data that cannot be sent is
//! dropped: no call waits for it. Queues are bounded (`OTEL_BSP_MAX_QUEUE_SIZE`, by default 2,048 spans).

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::trace::{Gauge, Operation, Reading, Recorder, Recording, Trace, TraceParent};
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::{SpanBuilder, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use prometheus::{Registry, TextEncoder};

use super::metrics::Metrics;
use super::recording::{OwnRecording, Told, context};
use super::sender::Sender;
use super::settings::{Settings, Signal};

/// The timeout of the last export.
const CLOSING: Duration = Duration::from_secs(3);

/// The export of haft's operations by the conventions of OpenTelemetry. Clones are equivalent.
#[derive(Clone, Debug)]
pub struct Telemetry {
    tracing: SdkTracerProvider,
    measuring: SdkMeterProvider,
    recorder: Arc<OwnRecorder>,
    /// The registry for Prometheus.
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
    #[error("metrics cannot be asked for: {0}")]
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
        if settings.sends(Signal::Traces) {
            let exporter = SpanExporter::builder().with_http().with_http_client(sender.clone());
            let exporter = match settings.address(Signal::Traces) {
                Some(address) => exporter.with_endpoint(address),
                None => exporter,
            };
            tracing = tracing.with_batch_exporter(exporter.build()?);
        }
        let mut measuring = SdkMeterProvider::builder().with_resource(resource);
        if settings.sends(Signal::Metrics) {
            let exporter = MetricExporter::builder().with_http().with_http_client(sender);
            let exporter = match settings.address(Signal::Metrics) {
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
