//! The failures of a provider, with messages for persons. Every text from outside is bounded and on one line before
//! it is stored here, and contains no secret.

use std::fmt;
use std::time::Duration;

use haft_core::usage::Usage;

/// The maximum number of characters of an outside text in a message: enough for the explanation of any vendor, too
/// few for an error page to fill a screen.
const EXCERPT_CHARS: usize = 600;

/// The reason why a provider returned no turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ProviderError {
    /// The kind of provider.
    pub provider: &'static str,
    /// The URL of the request, without its query.
    pub endpoint: String,
    /// The number of attempts.
    pub attempts: u32,
    /// The failure of the last attempt.
    pub failure: Failure,
    /// The usage of responses that could not be used. Boxed, to keep the error small.
    pub wasted: Box<Usage>,
}

/// The kinds of failures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is no API key, and this endpoint requires one. Nothing was sent.
    #[error("no API key is set")]
    MissingKey {
        /// The environment variable that usually holds the key.
        variable: &'static str,
    },
    /// The connection failed, or broke before the response began.
    #[error("request failed: {0}")]
    Connect(String),
    /// The server's certificate has no issuer that this machine trusts. Nothing was sent.
    #[error("the server cannot be trusted: {0}")]
    Untrusted(String),
    /// The response was not complete within the timeout.
    #[error("no complete answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The server sent nothing for too long.
    #[error("{} for {} s", if *.began { "the answer stalled: no \
        data" } else { "no answer began" }, .waited.as_secs_f64())]
    Silent {
        /// Whether a part of the response had arrived.
        began: bool,
        /// The duration of the wait.
        waited: Duration,
    },
    /// The connection broke in the middle of the response.
    #[error("the connection ended within the answer: {0}")]
    Interrupted(String),
    /// The response was longer than any turn can be, in bytes.
    #[error("the answer is longer than {0} bytes")]
    TooLarge(usize),
    /// The server responded with an error status.
    #[error("returned {status}{}: {body}", reason(*.status))]
    Status {
        /// The HTTP status code.
        status: u16,
        /// The message in the body, bounded.
        body: String,
        /// The way in which the failure may end, if it may.
        passing: Option<Passing>,
        /// The wait that the server requests.
        wait: Option<Duration>,
    },
    /// The server responded with a success status and an error in the body.
    #[error("reported an error: {message}")]
    Reported {
        /// The status that corresponds to the error code.
        code: Option<u16>,
        /// The message in the body, bounded.
        message: String,
        /// The way in which the failure may end, if it may.
        passing: Option<Passing>,
        /// The wait that the server requests.
        wait: Option<Duration>,
    },
    /// The body does not have the vendor's format.
    #[error("failed to parse response: {0}")]
    Malformed(String),
    /// The vendor reports that the output of the model is unusable.
    #[error("the model's answer is invalid: {0}")]
    Botched(String),
    /// The vendor's filter rejected the conversation.
    #[error("the prompt was blocked: {0}")]
    Blocked(String),
    /// The conversation is longer than the model's context window.
    #[error("the conversation is longer than the model's context window: {0}")]
    TooLong(String),
    /// The body is well formed and holds no turn.
    #[error("empty response: {0}")]
    Empty(String),
}

/// The way in which a failure may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// The vendor is overloaded, limits the rate or is unreachable: it recovers after a while.
    Unavailable,
    /// Nothing arrived for minutes.
    Silent,
    /// The response was unusable: the next attempt may succeed.
    Unusable,
}

impl Failure {
    /// Returns the way in which the failure may end; `None` if an equal request will fail again.
    pub(crate) fn passing(&self) -> Option<Passing> {
        match self {
            Self::Connect(_) | Self::Interrupted(_) => Some(Passing::Unavailable),
            Self::Silent { .. } | Self::TimedOut(_) => Some(Passing::Silent),
            Self::Malformed(_) | Self::Botched(_) | Self::Empty(_) => Some(Passing::Unusable),
            Self::Status { passing, .. } | Self::Reported { passing, .. } => *passing,
            _ => None,
        }
    }

    /// Returns the wait that the server requests.
    pub(crate) fn wait(&self) -> Option<Duration> {
        match self {
            Self::Status { wait, .. } | Self::Reported { wait, .. } => *wait,
            _ => None,
        }
    }

    /// Returns the status and the text of a server that rejected the request, by status or in the body.
    fn response(&self) -> Option<(Option<u16>, &str)> {
        match self {
            Self::Status { status, body, .. } => Some((Some(*status), body)),
            Self::Reported { code, message, .. } => Some((*code, message)),
            _ => None,
        }
    }

    /// Returns the kind of failure as an identifier.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::MissingKey { .. } => "missing_key",
            Self::Connect(_) => "connect",
            Self::Untrusted(_) => "untrusted",
            Self::TimedOut(_) | Self::Silent { .. } => "timeout",
            Self::Interrupted(_) => "interrupted",
            Self::TooLarge(_) => "too_large",
            Self::Status { .. } | Self::Reported { .. } => "provider_error",
            Self::Malformed(_) | Self::Botched(_) => "unusable_answer",
            Self::Blocked(_) => "content_filter",
            Self::TooLong(_) => "context_length_exceeded",
            Self::Empty(_) => "empty_answer",
        }
    }
}

/// Texts of servers that cannot convert a schema to a grammar, or lack the parameter.
const OF_FORMAT: &[&str] = &["grammar", "json_schema", "response_format", "schema", "structured output"];
/// Texts about rejected files, for statuses without that meaning: `image input is not supported`.
const ABOUT_FILES: &[&str] =
    &["image", "vision", "multimodal", "modalit", "mmproj", "picture", "document", "file"];
/// Further texts of servers whose model accepts no files at all.
const TAKES_NONE: &[&str] = &[
    "data required for",
    "does not have vision",
    "does not support",
    "image input",
    "mmproj",
    "not a vision",
    "not multimodal",
    "only supports text",
];
/// Texts of servers that require another form of a file.
const OF_FORM: &[&str] = &["format", "media type", "mime", "valid"];

impl Failure {
    /// Returns whether the server rejected the content of the request.
    pub(crate) fn is_invalid_request(&self) -> bool {
        matches!(self.response(), Some((Some(400 | 422), _))) && self.passing().is_none()
    }

    /// Returns whether the server may have rejected the schema of the answer, by a rejection of the request or by
    /// its text.
    pub(super) fn may_be_of_format(&self) -> bool {
        let Some((code, text)) = self.response() else { return false };
        self.is_invalid_request() || code == Some(501) || has_words(text, OF_FORMAT)
    }

    /// Returns whether a request with files may have failed because of the files.
    pub(crate) fn may_be_about_files(&self) -> bool {
        match self.response() {
            Some((Some(400 | 413 | 415 | 422), _)) => self.passing().is_none(),
            Some((None | Some(404 | 500 | 501), text)) => has_words(text, ABOUT_FILES),
            _ => false,
        }
    }

    pub(super) fn names_files(&self) -> bool {
        self.response().is_some_and(|(_, text)| has_words(text, ABOUT_FILES))
    }

    /// Returns whether the text states that the model accepts no files at all, rather than that one file is
    /// invalid.
    pub(super) fn says_no_files(&self) -> bool {
        self.names_files()
            && self
                .response()
                .is_some_and(|(_, text)| has_words(text, TAKES_NONE) && !has_words(text, OF_FORM))
    }
}

fn has_words(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase();
    words.iter().any(|word| text.contains(word))
}

impl ProviderError {
    /// Returns the way to fix the failure, if a likely fix is known.
    pub fn hint(&self) -> Option<String> {
        let text = match &self.failure {
            Failure::TooLong(_) => {
                "set `context_window` in `[provider]`, or choose a model with a larger context window: \
                 `--model`"
                    .into()
            }
            Failure::MissingKey { variable } => {
                format!("set `{variable}` and `[provider] api_key = {{ env = \"{variable}\" }}`")
            }
            Failure::Connect(_) => {
                format!(
                    "is a server listening at `{}`? The address is `base_url` in `[provider]`",
                    self.server()
                )
            }
            Failure::Untrusted(_) => {
                "set `SSL_CERT_FILE` to trust other certificates than the system's".into()
            }
            Failure::TimedOut(_) => "raise `timeout` in `[provider]`".into(),
            Failure::Silent { began: false, .. } => "raise `first_byte_timeout` in `[provider]`".into(),
            Failure::Silent { began: true, .. } => "raise `idle_timeout` in `[provider]`".into(),
            failure => return failure.response().and_then(|(code, text)| self.hint_at(code?, text)),
        };
        Some(text)
    }

    /// Returns the endpoint without its path.
    fn server(&self) -> &str {
        let host = self.endpoint.find("://").map_or(0, |at| at + 3);
        let path = self.endpoint.get(host..).and_then(|rest| rest.find('/'));
        path.and_then(|at| self.endpoint.get(..host + at)).unwrap_or(&self.endpoint)
    }

    fn hint_at(&self, status: u16, text: &str) -> Option<String> {
        let text = match status {
            401 | 403 => "check `[provider] api_key`",
            // Gemini's response to an invalid key.
            400 if text.contains("API key") || text.contains("API_KEY") => "check `[provider] api_key`",
            400 | 422 if text.contains("stream") => {
                "set `stream = false` in `[provider]` to request whole answers"
            }
            404 if self.provider == "ollama" => {
                "`ollama pull` fetches a model, `ollama list` lists the local models"
            }
            404 => "check `[provider] model` and `[provider] base_url`",
            _ => return None,
        };
        Some(text.into())
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at `{}`: {}", self.provider, self.endpoint, self.failure)?;
        if self.attempts > 1 {
            write!(f, " (tried {} times)", self.attempts)?;
        }
        Ok(())
    }
}

/// The reason why a provider cannot be made. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The kind does not exist.
    #[error("unknown provider `{kind}`; expected one of: {known}")]
    UnknownKind {
        /// The requested kind.
        kind: String,
        /// The existing kinds, for the message.
        known: String,
    },
    /// The base URL is invalid. The message hides secrets in it.
    #[error("`base_url` {0}")]
    BaseUrl(String),
    /// A header is invalid.
    #[error("`headers`: `{name}` is not a valid header: {reason}")]
    Header {
        /// The header's name.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// The API key is not a valid header value.
    #[error("`api_key` has characters that are not allowed in an HTTP header, such as a line break")]
    ApiKey,
    /// The key of the body is reserved for haft.
    #[error("`extra_body` must not set `{0}`: haft sets this field")]
    Extra(String),
    /// The model has no name.
    #[error("`model` is empty; expected the name of a model")]
    NoModel,
    /// The certificates or the HTTP client could not be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
}

fn reason(status: u16) -> &'static str {
    match status {
        400 => " Bad Request",
        401 => " Unauthorized",
        402 => " Payment Required",
        403 => " Forbidden",
        404 => " Not Found",
        408 => " Request Timeout",
        413 => " Content Too Large",
        422 => " Unprocessable Content",
        429 => " Too Many Requests",
        500 => " Internal Server Error",
        502 => " Bad Gateway",
        503 => " Service Unavailable",
        504 => " Gateway Timeout",
        529 => " Overloaded",
        _ => "",
    }
}

/// Shortens an outside text for a message.
pub(super) fn excerpt(text: &str) -> String {
    haft_core::net::excerpt(text, EXCERPT_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(failure: Failure, attempts: u32) -> ProviderError {
        let (provider, endpoint, wasted) = ("openai", "http://localhost/v1".into(), Box::default());
        ProviderError { provider, endpoint, attempts, failure, wasted }
    }

    /// PL06: a message names the provider, the URL, the status and the number of attempts.
    #[test]
    fn a_message_names_provider_endpoint_status_and_attempts() {
        let failure = Failure::refused(429, "slow down");
        assert_eq!(
            error(failure, 3).to_string(),
            "openai at `http://localhost/v1`: returned 429 Too Many Requests: slow down (tried 3 times)"
        );
    }

    /// PL06: only rate limits, server errors and connection failures are retried.
    #[test]
    fn only_rate_limits_server_errors_and_connections_are_worth_another_try() {
        let status = |status| Failure::refused(status, "");
        for code in [408, 429, 500, 502, 503, 504, 529] {
            assert_eq!(status(code).passing(), Some(Passing::Unavailable), "{code}");
        }
        for code in [302, 400, 401, 403, 404, 413, 422, 501] {
            assert_eq!(status(code).passing(), None, "{code}");
        }
        assert_eq!(Failure::Connect("refused".into()).passing(), Some(Passing::Unavailable));
        assert_eq!(Failure::Interrupted("reset".into()).passing(), Some(Passing::Unavailable));
        assert_eq!(Failure::Blocked("SAFETY".into()).passing(), None);
        assert_eq!(Failure::TooLarge(1).passing(), None);
    }

    /// By status, or by text if the status is unspecific or missing.
    #[test]
    fn refusals_of_files_are_known() {
        let status = Failure::refused;
        let reported = |code: Option<u16>, message: &str| Failure::Reported {
            code,
            message: message.into(),
            passing: None,
            wait: None,
        };
        let words = "this model is missing data required for image input";
        for failure in [status(400, ""), status(500, words), reported(Some(422), ""), reported(None, words)] {
            assert!(failure.may_be_about_files(), "{failure:?}");
        }
        for failure in [
            status(500, "busy"),
            status(429, words),
            reported(None, "busy"),
            Failure::TooLong("image: the prompt is too long".into()),
        ] {
            assert!(!failure.may_be_about_files(), "{failure:?}");
        }
        assert!(status(422, "no tools").is_invalid_request() && !status(404, "").is_invalid_request());
        assert!(!status(400, "prompt is too long").is_invalid_request());
    }

    #[test]
    fn excerpts_are_one_bounded_line() {
        assert_eq!(excerpt("  a\n\tb\u{1b}[31m "), "a b [31m");
        assert_eq!(excerpt(&"é".repeat(10_000)).chars().count(), EXCERPT_CHARS + 1);
        assert_eq!(excerpt(&"x".repeat(EXCERPT_CHARS)).chars().count(), EXCERPT_CHARS);
    }

    #[test]
    fn hints_name_the_line_to_write() {
        let missing = error(Failure::MissingKey { variable: "OPENAI_API_KEY" }, 0);
        assert!(missing.hint().unwrap().contains("api_key = { env = \"OPENAI_API_KEY\" }"));
        assert_eq!(error(Failure::Empty("x".into()), 1).hint(), None);
        let wrong = error(Failure::refused(400, "API key not valid (INVALID_ARGUMENT)"), 1);
        assert_eq!(wrong.hint().unwrap(), "check `[provider] api_key`");
        let silent = error(Failure::Silent { began: true, waited: Duration::from_secs(2) }, 1);
        assert!(silent.to_string().ends_with("the answer stalled: no data for 2 s"), "{silent}");
        assert!(silent.hint().unwrap().contains("idle_timeout"));
    }
}
