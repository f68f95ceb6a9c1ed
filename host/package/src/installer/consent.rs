//! Consent to an installation. A proposal holds everything that the user agrees to; nothing is written before
//! it is decided.

use std::fmt;

use async_trait::async_trait;

use super::Candidate;
use crate::disclosure::Change;
use crate::signature::Signer;
use crate::{PackageSource, Pin, Request};

/// Decides on proposals, usually by asking a person.
#[async_trait]
pub trait Consent: Send + Sync {
    /// Decides one proposal. The decision holds for exactly the content of [`Proposal::candidate`].
    ///
    /// # Errors
    /// No decision is possible: the installation ends with this error and changes nothing.
    async fn decide(&self, proposal: &Proposal<'_>) -> anyhow::Result<Decision>;
}

/// The decision on a [`Proposal`].
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Install the candidate, and grant these requests in addition to the grants of program.toml. Each request
    /// is granted as listed here, whether the candidate made it or not.
    Install(Vec<Request>),
    /// Change nothing.
    Decline,
}

/// A proposal to the user.
#[derive(Debug)]
pub struct Proposal<'a> {
    /// The fetched content: its disclosure, its requests, its signature.
    pub candidate: &'a Candidate,
    /// The proposed operation.
    pub operation: Operation,
    /// The current grants in program.toml.
    pub granted: &'a [Request],
    /// The requests that were not agreed to before; all requests for a new entry.
    pub more: &'a [&'a Request],
    /// The installed version, if any.
    pub previous: Option<Previous<'a>>,
}

/// The operation on a [`Candidate`].
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Add a new entry to program.toml.
    Add,
    /// Install an entry that the user wrote into program.toml, with its grants.
    Adopt,
    /// Replace the installed version. `None`: nothing differs from the agreed content, so no consent is needed.
    Update(Option<UpdateReason>),
}

/// The installed version.
#[derive(Clone, Debug)]
pub struct Previous<'a> {
    /// The pin in program.lock.
    pub pin: &'a Pin,
    /// The differences from the agreed content; `None` if an earlier haft recorded nothing to compare with.
    pub changes: Option<Vec<Change>>,
}

/// Reasons why an update needs consent. The text continues a sentence that starts with the entry's name.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateReason {
    /// There is no pin.
    NotInstalled,
    /// The version requests more than before.
    AsksForMore,
    /// The signer changed.
    OtherSigner { before: Signer, now: Signer },
    /// The version is older than the installed one.
    Older { before: semver::Version, now: semver::Version },
    /// The version is unchanged and the content is not.
    SameVersion(semver::Version),
    /// The source changed.
    OtherSource(PackageSource),
    /// An earlier haft pinned the entry, without digests of the disclosure.
    NoDisclosure,
    /// The content changed.
    OtherContent,
    /// The content is unchanged, but its tool definitions are not.
    OtherTools,
}

impl fmt::Display for UpdateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled => f.write_str("was not installed before"),
            Self::AsksForMore => f.write_str("requests more than you agreed to"),
            Self::OtherSigner { before, now } => {
                write!(f, "is signed {}, and was {}", now.describe(), before.describe())
            }
            Self::Older { before, now } => write!(f, "is older: {now}, and {before} is installed"),
            Self::SameVersion(version) => write!(f, "has the same version {version} but other content"),
            Self::OtherSource(before) => {
                write!(f, "is installed from {}", haft_core::report::plain(&before.to_string()))
            }
            Self::NoDisclosure => {
                f.write_str("was pinned by an earlier haft, which did not record the shown content")
            }
            Self::OtherContent => f.write_str("differs from what you agreed to"),
            Self::OtherTools => f.write_str("has other tool definitions than you agreed to"),
        }
    }
}
