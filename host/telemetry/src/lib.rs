//! Traces and metrics of calls for OpenTelemetry.
