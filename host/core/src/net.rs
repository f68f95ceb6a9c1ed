//! Shared network code: detection of loopback hosts, framing of streamed bodies, the TLS configuration of
//! HTTP clients, and display of errors and texts from other machines. Resolves no name and opens no
//! connection.

mod frames;
mod retry;

use std::error::Error;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

pub use self::frames::{Frames, Framing, TooLong};
pub use self::retry::{Retry, retry_after};

/// The beginnings of HTTP client errors without information.
const WORDLESS: &[&str] =
    &["client error", "request or response body error", "error reading a body from connection"];

/// Whether `host`, as in a URL without the port, is this machine. `localhost` is the only such name: other names
/// depend on the resolver.
pub fn is_loopback(host: &str) -> bool {
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = match bracketed {
        Some(inner) => inner.parse::<Ipv6Addr>().map(IpAddr::from).ok(),
        None => host.parse().ok(),
    };
    address.is_some_and(is_loopback_address)
}

/// Whether `address` is a loopback address, also an IPv4 address mapped to IPv6.
pub fn is_loopback_address(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Returns the causes of an error on one line, without the error itself: the message of an HTTP client's error
/// contains only the URL.
pub fn chain(error: &dyn Error) -> String {
    let mut text = String::new();
    for cause in std::iter::successors(error.source(), |cause| (*cause).source()) {
        let reason = cause.to_string();
        if WORDLESS.iter().any(|wordless| reason.starts_with(wordless)) || text.contains(&reason) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&reason);
    }
    if text.is_empty() { "no answer".into() } else { text }
}

/// Joins the lines of a text.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Shortens an outside text for a message: one line, no control characters, at most `most` characters.
pub fn excerpt(text: &str, most: usize) -> String {
    // A long text is not read to its end.
    let looked_at = most.saturating_mul(4);
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let line = one_line(&printable.take(looked_at).collect::<String>());
    let mut shown: String = line.chars().take(most).collect();
    if shown.len() < line.len() || text.chars().nth(looked_at).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns a configuration with the system's certificates or, if only plain HTTP is used, with none: a local server
/// must work on a machine without certificates.
pub fn tls(secure: bool) -> Result<ClientConfig, rustls::Error> {
    // Passed in, not installed: the embedding program chooses a process-wide provider.
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions()?;
    let builder = if secure {
        builder.with_platform_verifier()?
    } else {
        builder.with_root_certificates(RootCertStore::empty())
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C16: all network code uses this function; any other form of a host is another machine.
    #[test]
    fn c16_this_machine_has_one_name_and_its_addresses() {
        for host in [
            "localhost",
            "LOCALHOST",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "localhost.",
            "localhost.test",
            "a.localhost",
            "127.0.0.1.test",
            "127.1",
            "0x7f.0.0.1",
            "0.0.0.0",
            "[::]",
            "10.0.0.1",
            "[127.0.0.1]",
            "[::1",
            "::1]",
            "[[::1]]",
            "[::ffff:10.0.0.1]",
            "[::127.0.0.1]",
            "localhost:80",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Step(&'static str, #[source] Option<Box<Step>>);

    #[test]
    fn c16_a_chain_says_each_cause_once() {
        let step = |text, cause: Option<Step>| Step(text, cause.map(Box::new));
        let refused = step("tcp connect error: refused", Some(step("refused", None)));
        let error =
            step("error for https://user:key@test", Some(step("client error (Connect)", Some(refused))));
        assert_eq!(chain(&error), "tcp connect error: refused");
        assert_eq!(chain(&step("alone", None)), "no answer");
    }

    #[test]
    fn c16_an_excerpt_is_one_bounded_line() {
        assert_eq!(excerpt("  a\n\tb\u{1b}[31m ", 600), "a b [31m");
        assert_eq!(excerpt(&"é".repeat(10_000), 600).chars().count(), 601);
        assert_eq!(excerpt(&"x".repeat(600), 600).chars().count(), 600);
    }
}
