//! The destination of a request: scheme, host and port, in the canonical form that patterns are compared with.
//! Refuses authorities that programs parse differently: user names, invalid ports and hosts.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The scheme of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Unencrypted.
    Http,
    /// Over TLS.
    Https,
}

/// The destination of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    scheme: Scheme,
    host: String,
    port: u16,
}

impl Scheme {
    /// Returns the scheme as written in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Returns the default port.
    pub fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Destination {
    /// Parses the scheme and the authority of a URL; `None` unless they are exactly `http` or `https` and
    /// `host[:port]`.
    pub fn new(scheme: &str, authority: &str) -> Option<Self> {
        let scheme = [Scheme::Http, Scheme::Https].into_iter().find(|known| known.name() == scheme)?;
        let (host, port) = split_port(authority)?;
        Some(Self { scheme, host: host_name(host)?, port: port.unwrap_or(scheme.port()) })
    }

    /// Returns the scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the host: a name in lower case, an IPv4 address, or an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, at least 1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the host without brackets, for name resolution and the check of the certificate.
    pub fn name(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns the host if it is an address.
    pub fn address(&self) -> Option<IpAddr> {
        self.name().parse().ok()
    }

    /// Returns this destination with one of its host's addresses as the host.
    #[must_use]
    pub fn at(&self, address: IpAddr) -> Self {
        let host = match address.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        Self { host, ..self.clone() }
    }

    /// Returns whether the host is `localhost`.
    pub fn is_localhost(&self) -> bool {
        self.host == "localhost"
    }

    /// Returns `host[:port]`, without the default port of the scheme.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.port() {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority())
    }
}

/// The maximum length of a host name: RFC 1035, section 2.3.4.
const MAX_HOST: usize = 253;

/// Splits `host:port`; the colons of a bracketed IPv6 address belong to the host. `None` if the port is no number from 1 to
/// 65,535.
pub(super) fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let host_end = text.rfind(']').map_or(0, |end| end + 1);
    match text.get(host_end..).and_then(|rest| rest.rfind(':')) {
        Some(colon) => {
            let (host, port) = text.split_at(host_end + colon);
            let port = port.trim_start_matches(':');
            // `parse` accepts a sign, and zeros that other programs take for octal numbers.
            if !port.starts_with(|first: char| matches!(first, '1'..='9')) {
                return None;
            }
            Some((host, Some(port.parse().ok()?)))
        }
        None => Some((text, None)),
    }
}

/// Returns the canonical form of a host: a name in lower case, an IPv6 address in its shortest form.
pub(super) fn host_name(host: &str) -> Option<String> {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse().ok().map(|address: Ipv6Addr| format!("[{address}]"));
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    (host.len() <= MAX_HOST && host.split('.').all(is_label)).then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_have_one_form() {
        for (scheme, authority, shown) in [
            ("https", "API.test", "https://api.test"),
            ("https", "api.test:443", "https://api.test"),
            ("http", "api.test:443", "http://api.test:443"),
            ("http", "127.0.0.1:80", "http://127.0.0.1"),
            ("http", "[0:0:0:0:0:0:0:1]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(Destination::new(scheme, authority).unwrap().to_string(), shown, "{authority}");
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_no_destination() {
        for authority in [
            "",
            ":80",
            "user@api.test",
            "api.test@evil.test",
            "api.test:",
            "api.test:0",
            "api.test:65536",
            "api.test:80:80",
            "api.test.",
            "api..test",
            "::1",
            "[::1",
            "[fe80::1%eth0]",
            "[api.test]",
            "api.test#x",
            "%31.test",
        ] {
            assert_eq!(Destination::new("http", authority), None, "{authority:?}");
        }
        assert_eq!(Destination::new("ftp", "api.test"), None);
    }
}
