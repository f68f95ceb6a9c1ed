//! The reasons why a request got no response, with remedies for models and people. Contains no URL: the caller
//! knows it, and adds it once.

use std::fmt;

/// Why a request got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    detail: String,
    redirected: Option<String>,
}

/// What sort of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request makes no sense: another URL, method or header would help.
    Invalid,
    /// The tool was not granted the destination.
    Denied,
    /// The host's name leads to no address.
    Dns,
    /// The host did not take the connection, or dropped it.
    Connection,
    /// The connection cannot be trusted.
    Tls,
    /// It took longer than the request allows.
    Timeout,
    /// One redirect led to another too often.
    Redirects,
    /// Any other reason.
    Other,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), redirected: None }
    }

    /// The same, of a request that a redirect to `url` led to.
    pub(super) fn of_redirect(self, url: &str) -> Self {
        Self { redirected: Some(shown(url)), ..self }
    }

    /// What sort of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.redirected {
            Some(url) => write!(f, "redirected to `{url}`: {}", self.detail),
            None => f.write_str(&self.detail),
        }
    }
}

impl std::error::Error for Error {}

/// Characters of a URL in a message: more hides what the message says.
const MAX_SHOWN: usize = 200;

/// A URL as messages show it.
pub(super) fn shown(url: &str) -> String {
    match url.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", url.get(..end).unwrap_or_default()),
        None => url.to_owned(),
    }
}
