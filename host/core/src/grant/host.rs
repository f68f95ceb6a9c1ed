//! Patterns of network destinations in program.toml: `[scheme://](host | *.suffix)[:port]`, or `*`. Only matches
//! destinations; does not resolve names.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use super::destination::{Destination, Scheme, host_name, split_port};
use super::{Grant, push_new};

/// A pattern of network destinations.
///
/// `api.github.com` is HTTPS on port 443; `http://localhost:8080` is exactly that destination; `*.example.com` is
/// every name below `example.com`, without `example.com` itself; `*` is every host, over HTTP or HTTPS on any port.
///
/// A name leads only to addresses of the public internet, regardless of its resolution: see
/// [`Grant::may_connect`]. Any other address needs its own grant with its port
/// (`http://192.168.1.5:8080`); loopback may also be granted as `localhost`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern(Option<Named>);

/// A pattern other than `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    scheme: Scheme,
    subdomains: bool,
    host: String,
    port: u16,
}

/// The reason why a text is not a [`HostPattern`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostPatternError {
    /// The scheme is neither `http` nor `https`.
    #[error("the scheme must be `http` or `https`")]
    Scheme,
    /// The host is missing or has invalid characters.
    #[error(
        "expected a host name such as `api.github.com`, `*.github.com` or `http://localhost:8080`, or `*` for every public host"
    )]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("the port must be a number from 1 to 65535")]
    Port,
    /// The pattern has a path, query or user name, which the grant of a host cannot limit.
    #[error("expected a host, not a URL: remove what follows the host and port")]
    NotAHost,
}

impl HostPattern {
    /// Returns the pattern of every public host.
    pub fn any() -> Self {
        Self(None)
    }

    /// Returns whether the pattern is `*`.
    pub fn is_any(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the pattern matches `destination`.
    pub fn matches(&self, destination: &Destination) -> bool {
        self.0.as_ref().is_none_or(|named| {
            named.scheme == destination.scheme()
                && named.port == destination.port()
                && named.covers_host(destination.host())
        })
    }

    /// Returns the destination with the host `host`, if the pattern names that host.
    pub(super) fn destination(&self, host: &str) -> Option<Destination> {
        let named = self.0.as_ref()?;
        let authority = format!("{host}:{}", named.port);
        named.covers_host(host).then(|| Destination::new(named.scheme.name(), &authority))?
    }

    /// Returns whether the pattern is exactly this address and port.
    pub fn is_address(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        self.0.as_ref().is_some_and(|named| named.address() == Some(ip) && named.port == address.port())
    }

    /// Returns whether the pattern names this machine as `localhost`.
    pub(super) fn is_localhost(&self) -> bool {
        self.0.as_ref().is_some_and(|named| named.host == "localhost" && !named.subdomains)
    }

    /// Returns whether this pattern allows everything that `other` allows.
    pub fn contains(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(_), None) => false,
            // `*` does not include loopback, nor plain TCP to an address.
            (None, Some(named)) => named.address().is_none() && !other.is_localhost(),
            (Some(ours), Some(theirs)) => ours.contains(theirs),
        }
    }
}

impl Named {
    /// Returns the host if it is an address.
    fn address(&self) -> Option<IpAddr> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host.parse().ok().filter(|_| !self.subdomains).map(|address: IpAddr| address.to_canonical())
    }

    fn covers_host(&self, host: &str) -> bool {
        if self.subdomains {
            host.strip_suffix(&self.host).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
        } else {
            host == self.host
        }
    }

    fn contains(&self, other: &Self) -> bool {
        let same_way = self.scheme == other.scheme && self.port == other.port;
        let covers = match (self.subdomains, other.subdomains) {
            (false, true) => false,
            (true, true) if self.host == other.host => true,
            // `*.0.0.1` matches names only.
            (true, false) if other.address().is_some() => false,
            _ => self.covers_host(&other.host),
        };
        same_way && covers
    }
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "*" {
            return Ok(Self::any());
        }
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(_) => return Err(HostPatternError::Scheme),
            None => (Scheme::Https, text),
        };
        if rest.contains(['/', '?', '#', '@']) {
            return Err(HostPatternError::NotAHost);
        }
        let (host, port) = split_port(rest).ok_or(HostPatternError::Port)?;
        let (subdomains, host) = match host.strip_prefix("*.") {
            Some(suffix) => (true, suffix),
            None => (false, host),
        };
        let host = host_name(host).filter(|host| !subdomains || !host.starts_with('['));
        let (host, port) = (host.ok_or(HostPatternError::Host)?, port.unwrap_or(scheme.port()));
        Ok(Self(Some(Named { scheme, subdomains, host, port })))
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Named { scheme, subdomains, host, port }) = &self.0 else {
            return f.write_str("*");
        };
        if *scheme == Scheme::Http {
            f.write_str("http://")?;
        }
        if *subdomains {
            f.write_str("*.")?;
        }
        f.write_str(host)?;
        if *port == scheme.port() { Ok(()) } else { write!(f, ":{port}") }
    }
}

// Hosts that stay closed to every grant: a name and all names below it, or an address under any name that resolves to it.

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

    fn is(&self, address: IpAddr) -> bool {
        self.address() == Some(address.to_canonical())
    }
}

impl Grant {
    /// Closes a host: no request is sent to it, and no connection is made if it is an address.
    #[must_use]
    pub fn with_blocked_host(mut self, host: HostName) -> Self {
        push_new(&mut Arc::make_mut(&mut self.sealed).hosts, host);
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
    use super::super::AddressError;
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
