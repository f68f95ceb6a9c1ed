//! The settings of telemetry. The variables of OpenTelemetry's specification take precedence over program.toml:
//! they are set for one run.

use secrecy::SecretString;

/// The settings in program.toml.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The OTLP endpoint over HTTP; `/v1/traces` and `/v1/metrics` are appended.
    pub endpoint: Option<String>,
    /// The headers of every request.
    pub headers: Vec<(String, SecretString)>,
    /// The name of the service.
    pub service_name: Option<String>,
    /// Whether metrics are served to Prometheus, whatever is exported.
    pub is_scraped: bool,
}

/// A kind of exported data: the path of its endpoint, and its environment variables.
#[derive(Clone, Copy)]
pub(crate) struct Signal {
    path: &'static str,
    endpoint: &'static str,
    exporter: &'static str,
}

pub(crate) const TRACES: Signal = Signal {
    path: "v1/traces",
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    exporter: "OTEL_TRACES_EXPORTER",
};

pub(crate) const METRICS: Signal = Signal {
    path: "v1/metrics",
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    exporter: "OTEL_METRICS_EXPORTER",
};

impl Settings {
    /// Returns whether anything is exported or served.
    pub fn is_on(&self) -> bool {
        self.is_scraped || self.sends(TRACES) || self.sends(METRICS)
    }

    pub(crate) fn sends(&self, signal: Signal) -> bool {
        let is_disabled =
            variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let is_none = variable(signal.exporter).is_some_and(|value| value == "none");
        !is_disabled && !is_none && (self.endpoint.is_some() || is_in_environment(signal))
    }

    /// Returns the address for this signal, unless the environment sets one.
    pub(crate) fn address(&self, signal: Signal) -> Option<String> {
        if is_in_environment(signal) {
            return None;
        }
        self.endpoint.as_ref().map(|endpoint| format!("{}/{}", endpoint.trim_end_matches('/'), signal.path))
    }

    /// Returns the name of the service, unless the environment sets one.
    pub(crate) fn service_name(&self) -> Option<String> {
        let is_named = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|value| value.contains("service.name="));
        (!is_named).then(|| self.service_name.clone().unwrap_or_else(|| "haft".to_owned()))
    }
}

fn is_in_environment(signal: Signal) -> bool {
    variable(signal.endpoint).is_some() || variable("OTEL_EXPORTER_OTLP_ENDPOINT").is_some()
}

/// Returns an environment variable; an empty one counts as not set, as the specification requires.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}
