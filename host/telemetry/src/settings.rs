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

/// A kind of exported data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    fn variable(self) -> &'static str {
        match self {
            Self::Traces => "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            Self::Metrics => "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Metrics => "v1/metrics",
        }
    }

    fn exporter(self) -> &'static str {
        match self {
            Self::Traces => "OTEL_TRACES_EXPORTER",
            Self::Metrics => "OTEL_METRICS_EXPORTER",
        }
    }
}

impl Settings {
    /// Returns whether anything is exported or served.
    pub fn is_on(&self) -> bool {
        self.is_scraped || self.sends(Signal::Traces) || self.sends(Signal::Metrics)
    }

    pub(crate) fn sends(&self, signal: Signal) -> bool {
        let is_disabled =
            variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let is_none = variable(signal.exporter()).is_some_and(|value| value == "none");
        !is_disabled && !is_none && (self.endpoint.is_some() || is_in_environment(signal))
    }

    /// Returns the address for this signal, unless the environment sets one.
    pub(crate) fn address(&self, signal: Signal) -> Option<String> {
        if is_in_environment(signal) {
            return None;
        }
        self.endpoint.as_ref().map(|endpoint| format!("{}/{}", endpoint.trim_end_matches('/'), signal.path()))
    }

    /// Returns the name of the service, unless the environment sets one.
    pub(crate) fn service_name(&self) -> Option<String> {
        let is_named = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|value| value.contains("service.name="));
        (!is_named).then(|| self.service_name.clone().unwrap_or_else(|| "haft".to_owned()))
    }
}

fn is_in_environment(signal: Signal) -> bool {
    variable(signal.variable()).is_some() || variable("OTEL_EXPORTER_OTLP_ENDPOINT").is_some()
}

/// Returns an environment variable; an empty one counts as not set, as the specification requires.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}
