//! Patterns of network destinations in program.toml: `[scheme://](host | *.suffix)[:port]`, or `*`. Only matches
//! destinations; does not resolve names.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::destination::{Destination, Scheme, host_name, split_port};

/// A pattern of network destinations.
///
/// `api.github.com` is HTTPS on port 443; `http://localhost:8080` is exactly that destination; `*.example.com` is
/// every name below `example.com`, without `example.com` itself; `*` is every host, over HTTP or HTTPS on any port.
///
/// A name leads only to addresses of the public internet, regardless of its resolution: see
/// [`Grant::may_connect`](super::Grant::may_connect). Any other address needs its own grant with its port
/// (`http://192.168.1.5:8080`); loopback may also be granted as `localhost`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// `*`
    Any,
    Named(Named),
}

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
        Self(Form::Any)
    }

    /// Returns whether the pattern is `*`.
    pub fn is_any(&self) -> bool {
        self.0 == Form::Any
    }

    /// Returns whether the pattern matches `destination`.
    pub fn matches(&self, destination: &Destination) -> bool {
        match &self.0 {
            Form::Any => true,
            Form::Named(named) => {
                named.scheme == destination.scheme()
                    && named.port == destination.port()
                    && named.covers_host(destination.host())
            }
        }
    }

    /// Returns the destination with the host `host`, if the pattern names that host.
    pub(super) fn destination(&self, host: &str) -> Option<Destination> {
        let Form::Named(named) = &self.0 else { return None };
        let authority = format!("{host}:{}", named.port);
        named.covers_host(host).then(|| Destination::new(named.scheme.name(), &authority))?
    }

    /// Returns whether the pattern is exactly this address and port.
    pub fn is_address(&self, address: SocketAddr) -> bool {
        let Form::Named(named) = &self.0 else { return false };
        named.address() == Some(address.ip().to_canonical()) && named.port == address.port()
    }

    /// Returns whether the pattern names this machine as `localhost`.
    pub(super) fn is_localhost(&self) -> bool {
        matches!(&self.0, Form::Named(named) if named.host == "localhost" && !named.subdomains)
    }

    /// Returns whether this pattern allows everything that `other` allows.
    pub fn contains(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Form::Any, Form::Any) => true,
            (Form::Named(_), Form::Any) => false,
            // `*` does not include loopback, nor plain TCP to an address.
            (Form::Any, Form::Named(named)) => named.address().is_none() && !other.is_localhost(),
            (Form::Named(ours), Form::Named(theirs)) => ours.contains(theirs),
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

/// Returns the narrower pattern of every pair in which one contains the other.
pub(super) fn intersect(ours: &[HostPattern], theirs: &[HostPattern]) -> Vec<HostPattern> {
    let mut met: Vec<HostPattern> = Vec::new();
    for (a, b) in ours.iter().flat_map(|a| theirs.iter().map(move |b| (a, b))) {
        let narrower = if a.contains(b) { Some(b) } else { b.contains(a).then_some(a) };
        met.extend(narrower.filter(|pattern| !met.contains(pattern)).cloned());
    }
    met
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
        let (host, port) = split_port(rest).map_err(|_| HostPatternError::Port)?;
        let (subdomains, host) = match host.strip_prefix("*.") {
            Some(suffix) => (true, suffix),
            None => (false, host),
        };
        let host = host_name(host).filter(|host| !subdomains || !host.starts_with('['));
        let (host, port) = (host.ok_or(HostPatternError::Host)?, port.unwrap_or(scheme.port()));
        Ok(Self(Form::Named(Named { scheme, subdomains, host, port })))
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Form::Named(Named { scheme, subdomains, host, port }) = &self.0 else {
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
