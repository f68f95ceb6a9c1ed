//! Lists of hosts in grants, with named sets: the hosts that a package manager or a service needs. Lists of services
//! of this machine.

use haft_core::grant::{HostPattern, Service};

use super::entry::Entry;
use super::section::Section;
use super::table::{FromValue, Kind};

/// The named sets with their hosts, all with the port of HTTPS.
pub const HOST_SETS: &[(&str, &[&str])] = &[
    ("@crates", &["crates.io", "index.crates.io", "static.crates.io"]),
    (
        "@github",
        &[
            "api.github.com",
            "codeload.github.com",
            "github.com",
            "objects.githubusercontent.com",
            "raw.githubusercontent.com",
            "release-assets.githubusercontent.com",
        ],
    ),
    ("@npm", &["registry.npmjs.org"]),
    ("@pypi", &["files.pythonhosted.org", "pypi.org"]),
];

pub(super) const HOSTS: Kind =
    Kind::List(&Kind::Pattern("^(@(crates|github|npm|pypi)|(https?://)?[^/?#@]+)$"));

/// Reads patterns of hosts and the names of sets.
pub(super) fn hosts(entry: &Entry<'_>) -> Option<Vec<HostPattern>> {
    let hosts: Vec<Vec<HostPattern>> = entry.list(host)?;
    Some(hosts.into_iter().flatten().collect())
}

fn host(entry: &Entry<'_>) -> Option<Vec<HostPattern>> {
    let text = entry.word()?;
    if !text.starts_with('@') {
        return entry.parse().map(|host| vec![host]);
    }
    let Some((_, hosts)) = HOST_SETS.iter().find(|(name, _)| *name == text) else {
        let names = HOST_SETS.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        return entry.reject(format!("there is no such set of hosts; the sets are {names}"));
    };
    Some(hosts.iter().filter_map(|host| host.parse().ok()).collect())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_of_a_set_is_a_pattern_over_https() {
        for host in HOST_SETS.iter().flat_map(|(_, hosts)| *hosts) {
            let pattern: HostPattern = host.parse().unwrap();
            assert!(!pattern.is_any() && pattern.to_string() == *host, "{host}");
        }
        let Kind::List(Kind::Pattern(pattern)) = HOSTS else { panic!() };
        assert!(HOST_SETS.iter().all(|(name, _)| pattern.contains(name.trim_start_matches('@'))));
    }
}
