//! A network destination as program.toml writes it: `[scheme://](host | *.suffix)[:port]`.
//! Says only whether an authority matches; resolving names is not done here.

use std::fmt;
use std::str::FromStr;

/// A pattern of network destinations.
///
/// `api.github.com` is HTTPS on port 443; `http://localhost:8080` is exactly that;
/// `*.example.com` is every name below `example.com`, not `example.com` itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    scheme: Scheme,
    subdomains: bool,
    host: String,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// Why a text is not a [`HostPattern`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostPatternError {
    /// The scheme is neither `http` nor `https`.
    #[error("the scheme must be `http` or `https`")]
    Scheme,
    /// No host, or characters that no host name has.
    #[error("expected a host name such as `api.github.com`, `*.github.com` or `http://localhost:8080`")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("the port must be a number from 1 to 65535")]
    Port,
    /// A path, query or user name, which a grant of a host cannot limit.
    #[error("expected a host, not a URL: remove what follows the host and port")]
    NotAHost,
}

impl HostPattern {
    /// Whether a connection of `scheme` to `host` and `port` is meant. `host` is compared
    /// without regard to case.
    pub fn matches(&self, scheme: &str, host: &str, port: u16) -> bool {
        let host = host.to_ascii_lowercase();
        scheme.eq_ignore_ascii_case(self.scheme.name()) && port == self.port && self.covers_host(&host)
    }

    /// Whether the pattern names exactly this address and port.
    pub fn is_address(&self, address: std::net::SocketAddr) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        !self.subdomains && host.parse() == Ok(address.ip()) && self.port == address.port()
    }

    fn covers_host(&self, host: &str) -> bool {
        if self.subdomains {
            host.strip_suffix(&self.host).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
        } else {
            host == self.host
        }
    }

    /// Whether everything `other` matches is matched by this too.
    fn contains(&self, other: &Self) -> bool {
        let same_way = self.scheme == other.scheme && self.port == other.port;
        let covers = match (self.subdomains, other.subdomains) {
            (false, true) => false,
            (true, true) if self.host == other.host => true,
            _ => self.covers_host(&other.host),
        };
        same_way && covers
    }
}

/// The narrower of every pair of which one contains the other.
pub(super) fn meet(ours: &[HostPattern], theirs: &[HostPattern]) -> Vec<HostPattern> {
    let mut met: Vec<HostPattern> = Vec::new();
    for (a, b) in ours.iter().flat_map(|a| theirs.iter().map(move |b| (a, b))) {
        let narrower = if a.contains(b) { Some(b) } else { b.contains(a).then_some(a) };
        met.extend(narrower.filter(|pattern| !met.contains(pattern)).cloned());
    }
    met
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(_) => return Err(HostPatternError::Scheme),
            None => (Scheme::Https, text),
        };
        if rest.contains(['/', '?', '#', '@']) {
            return Err(HostPatternError::NotAHost);
        }
        let (host, port) = split_port(rest)?;
        let (subdomains, host) = match host.strip_prefix("*.") {
            Some(suffix) => (true, suffix),
            None => (false, host),
        };
        if !is_host(host) || subdomains && host.starts_with('[') {
            return Err(HostPatternError::Host);
        }
        Ok(Self { scheme, subdomains, host: host.to_ascii_lowercase(), port: port.unwrap_or(scheme.port()) })
    }
}

/// Splits `host:port`, leaving the colons of a bracketed IPv6 address alone.
fn split_port(text: &str) -> Result<(&str, Option<u16>), HostPatternError> {
    let host_end = text.rfind(']').map_or(0, |end| end + 1);
    match text.get(host_end..).and_then(|rest| rest.rfind(':')) {
        Some(colon) => {
            let (host, port) = text.split_at(host_end + colon);
            let port = port.trim_start_matches(':').parse().map_err(|_| HostPatternError::Port)?;
            if port == 0 { Err(HostPatternError::Port) } else { Ok((host, Some(port))) }
        }
        None => Ok((text, None)),
    }
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    host.len() <= MAX_HOST && host.split('.').all(is_label)
}

/// RFC 1035, section 2.3.4.
const MAX_HOST: usize = 253;

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, subdomains, host, port } = self;
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
