//! Traces and metrics of calls for OpenTelemetry (OTLP over HTTP), with its semantic conventions for generative AI
//! and MCP. haft reports its operations to a [`Recorder`](haft_core::trace::Recorder), which this crate implements.
//! Without telemetry settings nothing here runs.
//!
//! The metrics are also served in Prometheus's text format, if an address is set.
//!
//! The data are names of tools, models and servers, durations, token counts and kinds of failures. They contain no
//! prompt, no answer, no argument and no secret.

mod metrics;
mod names;
mod recorder;
mod scrapes;
mod sender;
mod settings;

pub use self::recorder::{Telemetry, TelemetryError};
pub use self::scrapes::{METRICS, Scrapes};
pub use self::settings::Settings;
