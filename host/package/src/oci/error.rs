//! Errors of requests to registries. Every text of a server is truncated and put on one line before it is
//! stored here, and none contains a secret.

use std::fmt;
use std::time::Duration;

use crate::Digest;
use crate::listing::TreeError;
use haft_core::report::Problem;
use haft_core::secret::Redactor;

/// Characters of a server's text that a message shows.
const EXCERPT_CHARS: usize = 300;

/// An error between haft and a registry.
#[derive(Debug, thiserror::Error)]
pub struct OciError {
    /// The reference, as the user wrote it.
    pub(crate) reference: String,
    /// The number of attempts.
    pub attempts: u32,
    /// The last failure.
    #[source]
    pub failure: Failure,
}

/// The causes of an [`OciError`].
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The connection failed.
    #[error("no answer: {0}")]
    Connect(String),
    /// The server's certificate is not trusted.
    #[error("the server cannot be trusted: {0}")]
    Untrusted(String),
    /// The response did not arrive, or did not end, within the time limit.
    #[error("no complete answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The connection was closed in the middle of a response.
    #[error("the connection ended within the answer: {0}")]
    Interrupted(String),
    /// The name does not exist, or is not visible to this user.
    #[error("not found in the registry{0}")]
    Missing(String),
    /// The registry requires authentication, and there are no credentials.
    #[error("the registry requires a login, and no credentials for `{registry}` were found{looked}")]
    Anonymous {
        /// The registry.
        registry: String,
        /// The files that were searched.
        looked: String,
    },
    /// The registry denies access to the user.
    #[error("the registry does not accept {who}{body}")]
    Denied {
        /// The credential that was sent: its user name and source.
        who: String,
        /// The registry's message.
        body: String,
    },
    /// The registry returned another error status.
    #[error("the registry answered {status}{body}")]
    Status {
        /// The HTTP status code.
        status: u16,
        /// The registry's message, truncated.
        body: String,
    },
    /// The token server's URL may not receive the credentials.
    #[error("the registry's token service is `{realm}`: {why}")]
    Realm {
        /// The URL of the token server.
        realm: String,
        /// The reason for the refusal.
        why: String,
    },
    /// The registry's redirect is not permitted.
    #[error("the registry redirects to `{target}`: {why}")]
    Redirect {
        /// The target.
        target: String,
        /// The reason for the refusal.
        why: &'static str,
    },
    /// A response exceeds its limit.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// The document.
        what: &'static str,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The size of a response differs from the manifest's.
    #[error("{what} has {found} bytes, but the manifest has {expected}")]
    Size {
        /// The document.
        what: &'static str,
        /// The announced size, in bytes.
        expected: u64,
        /// The received size, as far as the response was read.
        found: String,
    },
    /// The digest of a response differs from the expected one.
    #[error("{what} has the digest `{found}`, expected `{expected}`")]
    Digest {
        /// The document.
        what: &'static str,
        /// The expected digest.
        expected: Digest,
        /// The computed digest.
        found: Digest,
    },
    /// A response cannot be parsed.
    #[error("{what} {why}")]
    Malformed {
        /// The document.
        what: &'static str,
        /// The error of the parser.
        why: String,
    },
    /// The manifest holds neither a component nor a package.
    #[error("it {0}")]
    Content(String),
    /// A credential file cannot be used.
    #[error("{0}")]
    Credentials(String),
    /// The tag exists and names other content.
    #[error("`{tag}` exists already with other content (`{found}`)")]
    Exists {
        /// The tag.
        tag: String,
        /// The digest of the existing content.
        found: Digest,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] TreeError),
    /// TLS cannot be set up.
    #[error("cannot prepare TLS: {0}")]
    Tls(String),
}

impl Failure {
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Interrupted(_) => true,
            Self::Status { status, .. } => *status == 429 || ((500..600).contains(status) && *status != 501),
            _ => false,
        }
    }

    /// Redacts the secrets that the registry repeats in its message.
    pub(super) fn cleaned(mut self, redactor: &Redactor) -> Self {
        if let Self::Denied { body, .. } | Self::Status { body, .. } | Self::Missing(body) = &mut self {
            *body = redactor.redact_owned(std::mem::take(body));
        }
        self
    }

    pub(super) fn into_error(self, reference: impl fmt::Display, attempts: u32) -> OciError {
        OciError { reference: reference.to_string(), attempts, failure: self }
    }
}

impl OciError {
    /// Returns a hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        let text = match &self.failure {
            Failure::Anonymous { registry, .. } => {
                format!("`docker login {registry}` or `podman login {registry}` stores credentials")
            }
            Failure::Denied { .. } => "log in again, or ask the owner of the repository".to_owned(),
            Failure::Missing(_) => {
                "check the name and the tag; a private repository is hidden without a login".to_owned()
            }
            Failure::Untrusted(_) => {
                "set `SSL_CERT_FILE` to trust other certificates than the system's".to_owned()
            }
            Failure::Digest { .. } | Failure::Size { .. } => {
                "the fetched content is not the published content: nothing was stored".to_owned()
            }
            Failure::Exists { tag, .. } => {
                format!("publish another tag than `{tag}`, or replace it with `--force`")
            }
            Failure::Content(text) if text.starts_with("is an index") => {
                "choose one of its manifests: `…@sha256:DIGEST`".to_owned()
            }
            _ => return None,
        };
        Some(text)
    }
}

impl fmt::Display for OciError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.reference, self.failure)?;
        if self.attempts > 1 {
            write!(f, " (tried {} times)", self.attempts)?;
        }
        Ok(())
    }
}

impl From<OciError> for Problem {
    fn from(error: OciError) -> Self {
        let problem = Self::new(error.to_string());
        match error.hint() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

pub(super) fn excerpt(text: &str) -> String {
    haft_core::net::excerpt(text, EXCERPT_CHARS)
}
