//! A request and its time limit. Only valid requests can be built: a URL with a user name, or of another scheme, is
//! an error with a remedy for a model.

use std::time::{Duration, Instant};

use url::Url;

use super::error::{Error, ErrorKind, shown};

/// Characters of a URL: what servers take at most.
const MAX_URL: usize = 8192;

/// A request, to be handed to [`send`](super::send) or [`follow`](super::follow).
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) method: String,
    pub(super) url: Url,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) timeouts: Timeouts,
    /// When a request and what it was redirected to must be done.
    pub(super) deadline: Option<Instant>,
}

/// How long the parts of a request may take. The host may allow less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until there is a connection.
    pub connect: Duration,
    /// From there until the answer begins.
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    pub between_bytes: Duration,
    /// All of it, redirects and the reading of the answer included.
    pub total: Duration,
}

impl Default for Timeouts {
    /// 10 s for a connection, 20 s for an answer to begin, 10 s between its pieces, 30 s in all.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(20),
            between_bytes: Duration::from_secs(10),
            total: Duration::from_secs(30),
        }
    }
}

impl Request {
    /// A request with the method GET.
    pub fn get(url: &str) -> Result<Self, Error> {
        Ok(Self::new("GET", parse_url(url)?))
    }

    /// A request with any method, written as it is sent: `POST`.
    pub fn new(method: &str, url: Url) -> Self {
        let timeouts = Timeouts::default();
        Self { method: method.into(), url, headers: Vec::new(), body: Vec::new(), timeouts, deadline: None }
    }

    /// Adds a header. One that names the host or the length of the body is the host's to write.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends `body` along.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Allows this much time in all, and no part more than that.
    #[must_use]
    pub fn within(self, total: Duration) -> Self {
        let Timeouts { connect, .. } = self.timeouts;
        self.with_timeouts(Timeouts {
            connect: connect.min(total),
            first_byte: total,
            between_bytes: total,
            total,
        })
    }

    /// Allows each part its own time.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Where it is sent to.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// When it must be done, if it is begun now or has been begun already.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline.unwrap_or_else(|| Instant::now() + self.timeouts.total)
    }
}

/// Reads a URL that a request can be sent to: `http` or `https`, with a host, without a user.
pub fn parse_url(text: &str) -> Result<Url, Error> {
    let invalid = |why: String| Err(Error::new(ErrorKind::Invalid, why));
    let text = text.trim();
    if text.chars().nth(MAX_URL).is_some() {
        return invalid(format!("a URL may have {MAX_URL} characters"));
    }
    match Url::parse(text) {
        Ok(url) => check_url(url),
        Err(url::ParseError::RelativeUrlWithoutBase) => {
            let bare = text.trim_start_matches('/');
            invalid(format!("`{}` has no scheme; write `https://{}`", shown(text), shown(bare)))
        }
        Err(error) => invalid(format!("`{}` is not a URL: {error}", shown(text))),
    }
}

/// The URL, if a request can be sent to it.
pub(super) fn check_url(url: Url) -> Result<Url, Error> {
    let invalid = |why: String| Err(Error::new(ErrorKind::Invalid, why));
    if !matches!(url.scheme(), "http" | "https") {
        return invalid(format!(
            "the scheme `{}` is not supported; only `http` and `https` are",
            shown(url.scheme())
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return invalid(
            "a URL with a user name or password in it is refused; remove what stands before `@`".into(),
        );
    }
    if url.host_str().is_none_or(str::is_empty) {
        return invalid("the URL names no host".into());
    }
    Ok(url)
}
