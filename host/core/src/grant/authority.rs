//! The parts of `host[:port]`, in a canonical form for comparison.

use std::net::Ipv6Addr;

/// The error for a port that is no number from 1 to 65,535.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidPort;

/// The maximum length of a host name: RFC 1035, section 2.3.4.
const MAX_HOST: usize = 253;

/// Splits `host:port`; the colons of a bracketed IPv6 address belong to the host.
pub(super) fn split_port(text: &str) -> Result<(&str, Option<u16>), InvalidPort> {
    let host_end = text.rfind(']').map_or(0, |end| end + 1);
    match text.get(host_end..).and_then(|rest| rest.rfind(':')) {
        Some(colon) => {
            let (host, port) = text.split_at(host_end + colon);
            let port = port.trim_start_matches(':').parse().map_err(|_| InvalidPort)?;
            if port == 0 { Err(InvalidPort) } else { Ok((host, Some(port))) }
        }
        None => Ok((text, None)),
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
