//! `[telemetry]`: where traces and metrics of calls are sent. Absent: nowhere, unless the environment says so.

use haft_core::net::is_loopback;

use super::entry::Located;
use super::secret::{HEADERS, TextOrSecret, headers};
use super::section::Section;
use super::table::table;
use super::values::{URL, host_of};

table! {
    /// Where traces and metrics of calls are sent (OpenTelemetry, OTLP over HTTP). Absent: nowhere, unless
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` says so. `OTEL_…` variables count more than this table.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TelemetryTable = "[telemetry]" => Self::checked {
        // `/v1/traces` and `/v1/metrics` are below it.
        /// where OTLP is taken over HTTP, as `http://127.0.0.1:4318`
        #[read(URL, |entry| entry.located(Entry::url))]
        #[also("url", "otlp", "collector")]
        pub endpoint: Located<String>,
        /// sent with everything
        #[read(HEADERS, headers)]
        #[also("header")]
        pub headers: Vec<(String, TextOrSecret)> = Vec::new(),
        /// what this service is called; default `haft`
        #[also("service", "name")]
        pub service_name: Option<String> = None,
    }
}

impl TelemetryTable {
    fn checked(self, section: &Section<'_>) -> Self {
        let is_secret = |(_, value): &(String, TextOrSecret)| matches!(value, TextOrSecret::Secret(_));
        if self.headers.iter().any(is_secret) && is_open(&self.endpoint) {
            section
                .reject("endpoint", "a secret would travel unencrypted: use `https://`, or no secret header");
        }
        self
    }
}

/// Whether others on the way read what is sent there.
fn is_open(url: &str) -> bool {
    url.strip_prefix("http://").is_some_and(|rest| !is_loopback(host_of(rest)))
}
