//! Shared network code: detection of loopback hosts, framing of streamed bodies, the TLS configuration and the proxy of
//! HTTP clients, and display of errors and texts from other machines, and when to retry. Resolves no name and opens no
//! connection.

#[cfg(feature = "tls")]
mod tls;

use std::error::Error;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, SystemTime};

#[cfg(feature = "tls")]
pub use self::tls::{client, has_certificates, tls};

/// The beginnings of HTTP client errors without information.
const WORDLESS: &[&str] =
    &["client error", "request or response body error", "error reading a body from connection"];

/// Returns whether `host`, as in a URL without the port, is this machine. `localhost` is the only such name: other
/// names depend on the resolver.
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

/// Returns whether `address` is a loopback address, also an IPv4 address mapped to IPv6.
pub fn is_loopback_address(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Returns the causes of an error on one line, without the error itself, because the message of an HTTP client's
/// error contains only the URL.
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

// Splits a streamed body into frames: server-sent events (HTML Living Standard, section 9.2.6) or JSON lines.
// Holds at most one frame, and fails for a frame without end.

/// The framing of a streamed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Events,
    /// One frame a line.
    Lines,
}

/// The error for a frame that exceeds the limit.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// The state of splitting a body into frames.
#[derive(Debug)]
pub struct Frames {
    framing: Framing,
    /// The maximum size of a frame in bytes.
    most: usize,
    line: Vec<u8>,
    /// The data of the current event; `None` before its first line.
    data: Option<Vec<u8>>,
    /// Whether the last byte was a carriage return. A line feed after it belongs to that line end.
    after_return: bool,
    is_first_line: bool,
}

impl Frames {
    /// Splits a body into frames of at most `most` bytes each.
    pub fn new(framing: Framing, most: usize) -> Self {
        Self { framing, most, line: Vec::new(), data: None, after_return: false, is_first_line: true }
    }

    /// Adds a piece of the body, and appends completed frames to `frames`.
    ///
    /// # Errors
    /// A frame exceeds the limit; nothing more can be added.
    pub fn push(&mut self, piece: &[u8], frames: &mut Vec<Vec<u8>>) -> Result<(), TooLong> {
        for line in piece.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let after_return = std::mem::replace(&mut self.after_return, line.ends_with(b"\r"));
            let (text, ends) = match line.split_last() {
                Some((b'\n' | b'\r', text)) => (text, true),
                _ => (line, false),
            };
            if self.line.len() + self.data.as_ref().map_or(0, Vec::len) + text.len() > self.most {
                return Err(TooLong);
            }
            self.line.extend_from_slice(text);
            if ends && !(after_return && line == b"\n") {
                self.end_line(frames);
            }
        }
        Ok(())
    }

    /// Ends the body. Some servers omit the empty line after the last event, or the end of the last line.
    pub fn finish(&mut self, frames: &mut Vec<Vec<u8>>) {
        self.end_line(frames);
        frames.extend(self.data.take());
    }

    fn end_line(&mut self, frames: &mut Vec<Vec<u8>>) {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::replace(&mut self.is_first_line, false) && line.starts_with(b"\xEF\xBB\xBF") {
            line.drain(..3);
        }
        match self.framing {
            Framing::Lines if line.iter().all(u8::is_ascii_whitespace) => {}
            Framing::Lines => frames.push(line),
            Framing::Events if line.is_empty() => frames.extend(self.data.take()),
            Framing::Events => self.field(&line),
        }
    }

    /// Adds a line of an event. Only `data` matters: every vendor repeats the event's name in it.
    fn field(&mut self, line: &[u8]) {
        let Some(value) = line.strip_prefix(b"data") else { return };
        let value = match value.split_first() {
            None => value,
            Some((b':', value)) => value.strip_prefix(b" ").unwrap_or(value),
            Some(_) => return,
        };
        if let Some(data) = &mut self.data {
            data.push(b'\n');
            data.extend_from_slice(value);
        } else {
            self.data = Some(value.to_vec());
        }
    }
}

// Decides whether to retry a request and after how long. Computes the wait and never waits.

/// The conditions for repeating a failed request: only rate limits, server errors and connections without an
/// answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The maximum number of attempts, including the first.
    pub attempts: u32,
    /// The wait after the first failure. Each further failure doubles it.
    pub first_delay: Duration,
    /// The longest wait between attempts.
    pub max_delay: Duration,
    /// The longest accepted `Retry-After`. If a server requires more, the request fails without a retry: a shorter
    /// wait would lead to another failure.
    pub max_retry_after: Duration,
}

impl Retry {
    /// Returns the wait after the temporary failure of attempt number `attempt` (from 1); `None` after the last
    /// attempt.
    pub fn wait(&self, attempt: u32, retry_after: Option<Duration>) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        match retry_after {
            Some(asked) if asked > self.max_retry_after => None,
            Some(asked) => Some(asked),
            None => Some(jittered(self.backoff(attempt))),
        }
    }

    fn backoff(&self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
        self.first_delay.saturating_mul(factor).min(self.max_delay)
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            // With the delays below, this outlasts the restart of a proxy, and reports an unreachable host within four
            // seconds.
            attempts: 4,
            // The first and the last delay of the vendors' own clients.
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(8),
            // Rate limits are counted by the minute; longer quotas need a person.
            max_retry_after: Duration::from_mins(2),
        }
    }
}

/// Returns a random duration between half of `delay` and `delay`, so that clients that failed together do not
/// retry together.
fn jittered(delay: Duration) -> Duration {
    // The random seed of the standard library's hashers suffices for a wait.
    let random = RandomState::new().build_hasher().finish();
    let share = u32::try_from(random % 1024).unwrap_or(0);
    delay / 2 + (delay / 2048).saturating_mul(share)
}

/// Parses a `Retry-After` header: seconds or a date (RFC 9110, section 10.2.3).
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    // The date format that servers must send is also valid in RFC 2822.
    let date = SystemTime::from(jiff::fmt::rfc2822::parse(value).ok()?.timestamp());
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

    /// C16: all network code uses this function; any other form of a host is another machine.
    #[test]
    fn this_machine_has_one_name_and_its_addresses() {
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

    /// C16: the text of an error chain contains each cause once, and no URL.
    #[test]
    fn a_chain_says_each_cause_once() {
        let step = |text, cause: Option<Step>| Step(text, cause.map(Box::new));
        let refused = step("tcp connect error: refused", Some(step("refused", None)));
        let error =
            step("error for https://user:key@test", Some(step("client error (Connect)", Some(refused))));
        assert_eq!(chain(&error), "tcp connect error: refused");
        assert_eq!(chain(&step("alone", None)), "no answer");
    }

    /// C16: an excerpt is one line with a bounded number of characters.
    #[test]
    fn an_excerpt_is_one_bounded_line() {
        assert_eq!(excerpt("  a\n\tb\u{1b}[31m ", 600), "a b [31m");
        assert_eq!(excerpt(&"é".repeat(10_000), 600).chars().count(), 601);
        assert_eq!(excerpt(&"x".repeat(600), 600).chars().count(), 600);
    }

    const MOST: usize = 1 << 20;

    fn cut(framing: Framing, pieces: &[&[u8]]) -> Vec<String> {
        let (mut cutter, mut frames) = (Frames::new(framing, MOST), Vec::new());
        for piece in pieces {
            cutter.push(piece, &mut frames).unwrap();
        }
        cutter.finish(&mut frames);
        frames.into_iter().map(|frame| String::from_utf8(frame).unwrap()).collect()
    }

    #[test]
    fn events_are_cut_as_the_standard_says() {
        let body = b"\xEF\xBB\xBFevent: x\ndata: one\n\n: comment\r\n\r\ndata:two\ndata: more\r\rdatax: 1\ndata\n\nid: 7\nretry: 1\n\ndata:  last";
        let expected = ["one", "two\nmore", "", " last"];
        assert_eq!(cut(Framing::Events, &[body]), expected);
    }

    #[test]
    fn lines_are_cut_where_they_end() {
        assert_eq!(cut(Framing::Lines, &[b"{}\n\n  \r\n{\"a\":", b"1}\r\n{}"]), ["{}", "{\"a\":1}", "{}"]);
    }

    /// A frame without end is rejected in either framing.
    #[test]
    fn a_frame_is_bounded() {
        let long = vec![b'x'; MOST + 1];
        for framing in [Framing::Events, Framing::Lines] {
            assert_eq!(Frames::new(framing, MOST).push(&long, &mut Vec::new()), Err(TooLong));
        }
        let mut many = Frames::new(Framing::Events, MOST);
        let line = [b"data: ".as_slice(), &vec![b'x'; MOST / 8], b"\n"].concat();
        let refused = (0..16).any(|_| many.push(&line, &mut Vec::new()).is_err());
        assert!(refused);
    }

    proptest! {
        /// The frames do not depend on how the network splits the body.
        #[test]
        fn frames_do_not_depend_on_the_pieces(
            body in "(data: ?[a-z{}\":é]{0,6}|:x|event: y|)(\r\n|\n|\r|\n\n){1,2}(data: [a-z]{0,3}\n\n){0,3}",
            cuts in prop::collection::vec(0_usize..60, 0..4),
        ) {
            let bytes = body.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
            cuts.sort_unstable();
            let ends = cuts.iter().copied().chain([bytes.len()]);
            let starts = std::iter::once(0).chain(cuts.iter().copied());
            let pieces: Vec<_> = starts.zip(ends).map(|(from, to)| &bytes[from..to]).collect();
            for framing in [Framing::Events, Framing::Lines] {
                prop_assert_eq!(cut(framing, &pieces), cut(framing, &[bytes]));
            }
        }
    }

    /// PL06: waits double within their bounds, and their number is limited.
    #[test]
    fn waits_double_within_their_bounds_and_end() {
        let retry = Retry::default();
        for (attempt, full) in [(1, 500), (2, 1000), (3, 2000)] {
            let delay = retry.wait(attempt, None).unwrap().as_millis();
            assert!((full / 2..=full).contains(&delay), "{attempt}: {delay}");
        }
        assert_eq!(retry.wait(4, None), None);
        assert!(Retry { attempts: 99, ..retry }.wait(90, None).unwrap() <= retry.max_delay);
    }

    /// PL06: the server's wait applies, unless it exceeds the limit.
    #[test]
    fn a_server_chooses_the_wait_unless_it_is_absurd() {
        let retry = Retry::default();
        let asked = |seconds| retry.wait(1, Some(Duration::from_secs(seconds)));
        assert_eq!(asked(0), Some(Duration::ZERO));
        assert_eq!(asked(7), Some(Duration::from_secs(7)));
        assert_eq!(asked(3600), None);
    }

    /// PL06: `Retry-After` is a number of seconds or a date.
    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777 - 90);
        assert_eq!(retry_after("120", now), Some(Duration::from_mins(2)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(90)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:40:00 GMT", now), Some(Duration::ZERO));
        for bad in ["", "-1", "NaN", "soon", "Sun, 99 Foo 1994 08:49:37 GMT"] {
            assert_eq!(retry_after(bad, now), None, "{bad}");
        }
    }
}
