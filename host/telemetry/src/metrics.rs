//! The durations and the usage of operations, as histograms with the boundaries of the conventions; and gauges,
//! which are read at each export.

use haft_core::trace::{Gauge, Reading};
use haft_core::usage::Usage;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Histogram, Meter};

use super::names;

/// The boundaries of MCP operations in seconds.
const MCP_SECONDS: &[f64] = &[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The boundaries of model requests in seconds.
const MODEL_SECONDS: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The boundaries of token counts.
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Selects a histogram of durations.
pub(crate) type Measure = fn(&Metrics) -> &Histogram<f64>;

#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) served: Histogram<f64>,
    pub(crate) remote: Histogram<f64>,
    pub(crate) chat: Histogram<f64>,
    tokens: Histogram<u64>,
    meter: Meter,
}

impl Metrics {
    pub(crate) fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str, boundaries: &[f64]| {
            meter.f64_histogram(name).with_unit("s").with_boundaries(boundaries.to_vec()).build()
        };
        let tokens = meter.u64_histogram(names::MODEL_TOKENS).with_unit("{token}");
        Self {
            served: seconds(names::SERVER_DURATION, MCP_SECONDS),
            remote: seconds(names::CLIENT_DURATION, MCP_SECONDS),
            chat: seconds(names::MODEL_DURATION, MODEL_SECONDS),
            tokens: tokens.with_boundaries(TOKENS.to_vec()).build(),
            meter: meter.clone(),
        }
    }

    pub(crate) fn used(&self, usage: &Usage, attributes: &[KeyValue]) {
        for (kind, tokens) in [("input", usage.input), ("output", usage.output)] {
            let kind = KeyValue::new(names::TOKEN_TYPE, kind);
            self.tokens.record(tokens, &[attributes, &[kind]].concat());
        }
    }

    /// Reads a gauge from now on.
    pub(crate) fn watch(&self, gauge: Gauge, reading: Reading) {
        let (name, unit) = match gauge {
            Gauge::Places => (names::PLACES, "{place}"),
            Gauge::PlacesUsed => (names::PLACES_USED, "{place}"),
            Gauge::CallsSent => (names::CALLS_SENT, "{call}"),
        };
        let read = move |observer: &dyn AsyncInstrument<u64>| {
            if let Some(value) = reading() {
                observer.observe(value, &[]);
            }
        };
        let gauge = self.meter.u64_observable_gauge(name).with_unit(unit).with_callback(read);
        // The library keeps the callback.
        let _ = gauge.build();
    }
}
