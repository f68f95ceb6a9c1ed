//! What all network code shares: whether a host is this machine, how a streamed body is cut, and how a failure or text
//! from another machine is shown. Resolves no name and opens no connection.

mod frames;
mod retry;
#[cfg(feature = "tls")]
mod tls;

use std::error::Error;
use std::net::{IpAddr, Ipv6Addr};

pub use self::frames::{Frames, Framing, TooLong};
pub use self::retry::{Retry, retry_after};
#[cfg(feature = "tls")]
pub use self::tls::tls;

/// Beginnings of an HTTP client's errors that say no more than that there was an error.
const WORDLESS: &[&str] =
    &["client error", "request or response body error", "error reading a body from connection"];

/// Whether `host`, as a URL has it and without the port, is this machine. `localhost` is the only name that
/// is: where another name leads is the resolver's word.
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

/// Whether `address` is this machine, also as an IPv4 address in the form of an IPv6 one.
pub fn is_loopback_address(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// The causes of an error on one line. The error itself is left out: an HTTP client's own words say only that
/// there was one, and carry the URL.
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

/// A text of several lines on one.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A foreign text as a message may show it: one line, no control characters, at most `most` characters.
pub fn excerpt(text: &str, most: usize) -> String {
    // No more of it is looked at than could be needed, however much there is.
    let looked_at = most.saturating_mul(4);
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let line = one_line(&printable.take(looked_at).collect::<String>());
    let mut shown: String = line.chars().take(most).collect();
    if shown.len() < line.len() || text.chars().nth(looked_at).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C16: all network code gets the same answer; what is not a form of a loopback address is another machine.
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
