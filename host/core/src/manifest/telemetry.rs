//! `[telemetry]`: where traces and metrics of calls are sent. Absent: nowhere, unless the environment says so.

use super::catalogue::{SECRET, TELEMETRY};
use super::entry::{Entry, Located};
use super::secret::{TextOrSecret, check_header};
use super::section::Section;
use super::values::host_of;
use crate::net::is_loopback;

/// `[telemetry]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetryTable {
    /// Where OTLP is taken over HTTP: `/v1/traces` and `/v1/metrics` are below it.
    pub endpoint: Located<String>,
    /// Sent with everything.
    pub headers: Vec<(String, TextOrSecret)>,
    /// What this service is called; `None`: `haft`.
    pub service_name: Option<String>,
}

impl TelemetryTable {
    pub(super) fn read(root: &Section<'_>) -> Option<Self> {
        let section = root.get("telemetry", |entry| entry.section(&TELEMETRY))?;
        let endpoint = section.require("endpoint", |entry| entry.located(Entry::url));
        let headers = section.get("headers", |entry| entry.texts_and_secrets(&SECRET, check_header));
        let headers = headers.unwrap_or_default();
        let is_secret = |(_, value): &(String, TextOrSecret)| matches!(value, TextOrSecret::Secret(_));
        if headers.iter().any(is_secret) && endpoint.as_ref().is_some_and(|url| is_open(url)) {
            section
                .reject("endpoint", "a secret would travel unencrypted: use `https://`, or no secret header");
        }
        let service_name = section.get("service_name", Entry::text);
        Some(Self { endpoint: endpoint?, headers, service_name })
    }
}

/// Whether others on the way read what is sent there.
fn is_open(url: &str) -> bool {
    url.strip_prefix("http://").is_some_and(|rest| !is_loopback(host_of(rest)))
}
