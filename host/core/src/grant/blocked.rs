//! Hosts that stay closed to every grant: a name and all names below it, or an address under any name that resolves
//! to it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use super::Grant;
use super::destination::{Destination, host_name};

/// A host, for every scheme: a name, or an address (IPv6 in brackets).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

/// The reason why a text is not a [`HostName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a host name such as `example.com`, without scheme, port or `*`; its subdomains are included"
)]
pub struct HostNameError;

impl HostName {
    /// Returns whether `host` is this host or a name below it.
    pub fn covers(&self, host: &str) -> bool {
        let above = host.strip_suffix(&self.0).filter(|_| self.address().is_none());
        host == self.0 || above.is_some_and(|rest| rest.ends_with('.'))
    }

    fn address(&self) -> Option<IpAddr> {
        let address: Option<IpAddr> = self.0.trim_start_matches('[').trim_end_matches(']').parse().ok();
        address.map(|address| address.to_canonical())
    }
}

impl Grant {
    /// Closes a host: no request is sent to it, and no connection is made if it is an address.
    #[must_use]
    pub fn with_blocked_host(mut self, host: HostName) -> Self {
        if !self.sealed.hosts.contains(&host) {
            Arc::make_mut(&mut self.sealed).hosts.push(host);
        }
        self
    }

    /// Returns the closed hosts.
    pub fn blocked_hosts(&self) -> &[HostName] {
        &self.sealed.hosts
    }

    /// Returns the closed host that covers `destination`.
    pub fn blocks(&self, destination: &Destination) -> Option<&HostName> {
        let by_address = |host: &HostName| destination.address().is_some_and(|address| host.is(address));
        self.blocked_hosts().iter().find(|host| host.covers(destination.host()) || by_address(host))
    }

    /// Returns whether `address` is closed.
    pub(super) fn blocks_address(&self, address: IpAddr) -> bool {
        self.blocked_hosts().iter().any(|host| host.is(address))
    }
}

impl HostName {
    fn is(&self, address: IpAddr) -> bool {
        self.address() == Some(address.to_canonical())
    }
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, HostNameError> {
        host_name(text).map(Self).ok_or(HostNameError)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AddressError, HostPattern};
    use super::*;

    fn to(authority: &str) -> Destination {
        Destination::new("https", authority).unwrap()
    }

    fn blocking(hosts: &[&str]) -> Grant {
        let any = Grant::none().with_host(HostPattern::any());
        hosts.iter().fold(any, |grant, host| grant.with_blocked_host(host.parse().unwrap()))
    }

    /// FU02: a blocked domain closes all names below it, and nothing else.
    #[test]
    fn a_blocked_name_covers_what_is_below_it() {
        let grant = blocking(&["Example.com"]);
        for closed in ["example.com", "EXAMPLE.com:8443", "a.example.com", "a.b.example.com:1"] {
            assert!(!grant.may_ask(&to(closed)), "{closed}");
            assert_eq!(grant.blocks(&to(closed)).unwrap().to_string(), "example.com");
        }
        for open in ["notexample.com", "example.com.test", "example.co", "com"] {
            assert!(grant.may_ask(&to(open)) && grant.blocks(&to(open)).is_none(), "{open}");
        }
    }

    /// FU02: an address is closed in each of its forms, and for every name that resolves to it.
    #[test]
    fn a_blocked_address_is_closed_by_every_name() {
        let grant = blocking(&["1.1.1.1", "[2606:4700::1111]"]);
        for closed in ["1.1.1.1", "[::ffff:1.1.1.1]", "[2606:4700:0::1111]"] {
            assert!(!grant.may_ask(&to(closed)), "{closed}");
        }
        assert!(grant.may_ask(&to("2.1.1.1.1.test")) && grant.may_ask(&to("1.1.1.2")));
        for address in ["1.1.1.1", "::ffff:1.1.1.1", "2606:4700::1111"] {
            let judged = grant.may_connect(&to("dns.test"), address.parse().unwrap());
            assert_eq!(judged, Err(AddressError::Blocked), "{address}");
        }
    }

    /// FU02: a block takes precedence over a grant, and is never lost.
    #[test]
    fn blocks_outlive_everything() {
        let local = |grant: Grant| grant.with_host("http://127.0.0.1:80".parse().unwrap());
        let met = local(blocking(&["127.0.0.1"])).intersect(&local(blocking(&["example.com"])));
        for grant in [&met, &met.read_only(), &met.intersect(&local(Grant::none()))] {
            let loopback = Destination::new("http", "127.0.0.1").unwrap();
            assert!(!grant.may_ask(&loopback) && !grant.may_ask(&to("example.com")));
            let address = IpAddr::from([127, 0, 0, 1]);
            assert_eq!(grant.may_connect(&loopback, address), Err(AddressError::Blocked));
            assert!(!grant.may_open((address, 80).into()));
        }
    }

    #[test]
    fn a_blocked_host_is_no_pattern() {
        for text in [
            "https://example.com",
            "*.example.com",
            "example.com:80",
            "example.com/x",
            "*",
            "",
            "bücher.example",
        ] {
            assert_eq!(text.parse::<HostName>(), Err(HostNameError), "{text}");
        }
    }
}
