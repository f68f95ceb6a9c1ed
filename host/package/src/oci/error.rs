//! Why a registry gave or took nothing, in words for a person. Every text that came from outside
//! is bounded and on one line before it gets in here, and none of them holds a secret.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::Digest;
use haft_core::report::Problem;
use haft_core::secret::Redactor;

/// Characters of a foreign text that a message shows.
const EXCERPT_CHARS: usize = 300;

/// What went wrong between haft and a registry.
#[derive(Debug, thiserror::Error)]
pub struct OciError {
    /// What was wanted, as it was written.
    pub(crate) reference: String,
    /// How often it was tried.
    pub attempts: u32,
    /// What went wrong the last time.
    #[source]
    pub failure: Failure,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No answer came at all.
    #[error("no answer: {0}")]
    Connect(String),
    /// Nobody that this machine trusts vouches for the server.
    #[error("the server cannot be trusted: {0}")]
    Untrusted(String),
    /// The answer did not come, or not to its end, in time.
    #[error("no complete answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The connection broke in the middle of an answer.
    #[error("the answer broke off: {0}")]
    Interrupted(String),
    /// There is nothing of that name that the asker may know of.
    #[error("there is no such thing in the registry{0}")]
    Missing(String),
    /// The registry wants to know who asks, and there is nothing to show it.
    #[error("the registry wants to know who asks, and no credentials for `{registry}` were found{looked}")]
    Anonymous {
        /// The registry.
        registry: String,
        /// Where they were looked for.
        looked: String,
    },
    /// The registry knows who asks and does not let them.
    #[error("the registry does not accept {who}{body}")]
    Denied {
        /// What it was shown: whose, and from which file.
        who: String,
        /// What it says.
        body: String,
    },
    /// Another status that is not success.
    #[error("the registry answered {status}{body}")]
    Status {
        /// The HTTP status code.
        status: u16,
        /// What the body says, bounded.
        body: String,
    },
    /// Where tokens are handed out is nowhere the credentials may go.
    #[error("the registry sends haft to `{realm}` for a token: {why}")]
    Realm {
        /// Where it sends.
        realm: String,
        /// Why haft does not go there.
        why: String,
    },
    /// The registry sends haft elsewhere.
    #[error("the registry redirects to `{target}`: {why}")]
    Redirect {
        /// Where to.
        target: String,
        /// Why haft does not follow.
        why: &'static str,
    },
    /// An answer is larger than it may be.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// What was read.
        what: &'static str,
        /// How large it may be.
        limit: u64,
    },
    /// An answer is not as long as the manifest says.
    #[error("{what} has {found} bytes where the manifest says {expected}")]
    Size {
        /// What was read.
        what: &'static str,
        /// What was announced.
        expected: u64,
        /// What came, as far as it was read.
        found: String,
    },
    /// An answer is not what it should be.
    #[error("{what} has the digest `{found}` where `{expected}` was expected")]
    Digest {
        /// What was read.
        what: &'static str,
        /// What it should have been.
        expected: Digest,
        /// What it is.
        found: Digest,
    },
    /// An answer cannot be understood.
    #[error("{what} {why}")]
    Malformed {
        /// What was read.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The thing is there and is no plugin.
    #[error("it {0}")]
    Content(String),
    /// A file with credentials cannot be used.
    #[error("{0}")]
    Credentials(String),
    /// The tag stands for something else already.
    #[error("`{tag}` is there already and is something else (`{found}`)")]
    Exists {
        /// The tag.
        tag: String,
        /// What it stands for.
        found: Digest,
    },
    /// The file to send or to write.
    #[error("cannot {action} `{}`: {error}", path.display())]
    File {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        error: io::Error,
    },
    /// The system gives no TLS.
    #[error("cannot prepare TLS: {0}")]
    Tls(String),
}

impl Failure {
    /// Whether the same request may well succeed a little later.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Interrupted(_) => true,
            Self::Status { status, .. } => *status == 429 || ((500..600).contains(status) && *status != 501),
            _ => false,
        }
    }

    /// The same without what the registry repeats of a secret.
    pub(super) fn cleaned(mut self, redactor: &Redactor) -> Self {
        if let Self::Denied { body, .. } | Self::Status { body, .. } | Self::Missing(body) = &mut self {
            *body = redactor.redact_owned(std::mem::take(body));
        }
        self
    }

    /// Adds what was wanted.
    pub(super) fn into_error(self, reference: impl fmt::Display, attempts: u32) -> OciError {
        OciError { reference: reference.to_string(), attempts, failure: self }
    }
}

impl OciError {
    /// The way out, where there is a likely one.
    pub fn hint(&self) -> Option<String> {
        let text = match &self.failure {
            Failure::Anonymous { registry, .. } => {
                format!("`docker login {registry}` or `podman login {registry}` stores credentials")
            }
            Failure::Denied { .. } => "log in again, or ask whoever owns the repository".to_owned(),
            Failure::Missing(_) => {
                "check its name and its tag; a private repository is hidden from who is not logged in"
                    .to_owned()
            }
            Failure::Untrusted(_) => {
                "`SSL_CERT_FILE` names the certificates to trust instead of the system's".to_owned()
            }
            Failure::Digest { .. } | Failure::Size { .. } => {
                "what came is not what was published: nothing was kept of it".to_owned()
            }
            Failure::Exists { tag, .. } => {
                format!("publish another tag than `{tag}`, or replace it with `--force`")
            }
            Failure::Content(text) if text.starts_with("is an index") => {
                "name one of its manifests: `…@sha256:DIGEST`".to_owned()
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

/// A foreign text as a message may show it.
pub(super) fn excerpt(text: &str) -> String {
    haft_core::net::excerpt(text, EXCERPT_CHARS)
}
