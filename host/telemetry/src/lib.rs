//! Traces and metrics of calls for OpenTelemetry (OTLP over HTTP), by its conventions for generative AI and MCP. haft tells
//! what it does to a [`Recorder`](haft_core::trace::Recorder); this is one. Without it nothing here runs.
//!
//! The metrics are also there for whoever asks for them, in Prometheus's text format, where an address was named.
//!
//! What is sent are names of tools, models and servers, durations, numbers of tokens and kinds of failures. Nothing that
//! was said, asked or answered is among it, no argument and no secret.

mod metrics;
mod names;
mod recorder;
mod recording;
mod scrapes;
mod sender;
mod settings;

pub use self::recorder::{Telemetry, TelemetryError};
pub use self::scrapes::{METRICS, Scrapes};
pub use self::settings::Settings;
