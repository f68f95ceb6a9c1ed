//! Lists of services of this machine, in `[sandbox]` and in the grants of processes.

use haft_core::grant::{HostPattern, Service};

use super::entry::Entry;
use super::section::Section;
use super::table::{FromValue, Kind};

impl FromValue for Service {
    const KIND: Kind = Kind::PortOr(r"^(\*|[a-z][a-z0-9-]*|[^/]*/.*)$");

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        if entry.raw().as_integer().is_none() {
            return entry.parse();
        }
        let port = entry.count(1..=u32::from(u16::MAX))?;
        port.to_string().parse().ok()
    }
}

/// Rejects services that cannot be combined with `hosts`.
pub(super) fn check_services(services: &[Service], hosts: &[HostPattern], section: &Section<'_>) {
    if services.iter().any(Service::is_every) && holds_to_hosts(hosts) {
        section.reject(
            "services",
            "services behind unix sockets have the network, so `\"*\"` cannot be combined with single `hosts`: name \
             the services",
        );
    }
}

/// Returns whether `hosts` are single ones, and not the whole network.
pub(super) fn holds_to_hosts(hosts: &[HostPattern]) -> bool {
    !hosts.is_empty() && !hosts.iter().any(HostPattern::is_any)
}
