//! Where telemetry goes. The variables of OpenTelemetry's specification count more than program.toml: they are said for
//! one run.

use secrecy::SecretString;

/// What program.toml says.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where OTLP is taken over HTTP; `/v1/traces` and `/v1/metrics` are below it.
    pub endpoint: Option<String>,
    /// Sent with everything.
    pub headers: Vec<(String, SecretString)>,
    /// What the service is called.
    pub service_name: Option<String>,
    /// Whether somebody asks for metrics, whatever is sent.
    pub is_scraped: bool,
}

/// A kind of what is sent.
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
    /// Whether anything is to be sent or asked for.
    pub fn is_on(&self) -> bool {
        self.is_scraped || self.sends(Signal::Traces) || self.sends(Signal::Metrics)
    }

    /// Whether this is to be sent.
    pub(crate) fn sends(&self, signal: Signal) -> bool {
        let is_disabled =
            variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let is_none = variable(signal.exporter()).is_some_and(|value| value == "none");
        !is_disabled && !is_none && (self.endpoint.is_some() || is_in_environment(signal))
    }

    /// The address of this, where the environment says none.
    pub(crate) fn address(&self, signal: Signal) -> Option<String> {
        if is_in_environment(signal) {
            return None;
        }
        self.endpoint.as_ref().map(|endpoint| format!("{}/{}", endpoint.trim_end_matches('/'), signal.path()))
    }

    /// The name of the service, where the environment says none.
    pub(crate) fn service_name(&self) -> Option<String> {
        let is_named = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|value| value.contains("service.name="));
        (!is_named).then(|| self.service_name.clone().unwrap_or_else(|| "haft".to_owned()))
    }
}

fn is_in_environment(signal: Signal) -> bool {
    variable(signal.variable()).is_some() || variable("OTEL_EXPORTER_OTLP_ENDPOINT").is_some()
}

/// A variable; one that is empty counts as not set, as the specification says.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}
