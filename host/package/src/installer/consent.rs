//! Who decides whether something is installed, and what is put before them. A proposal holds all that there is to
//! agree to; nothing is written before it is answered.

use std::fmt;

use async_trait::async_trait;

use super::Candidate;
use crate::disclosure::Change;
use crate::signature::Signer;
use crate::{PackageSource, Pin, Request};

/// Decides on proposals, as a rule by asking a person.
#[async_trait]
pub trait Consent: Send + Sync {
    /// Answers one proposal. What is decided holds for exactly the content of [`Proposal::candidate`].
    ///
    /// # Errors
    /// Where there can be no answer: the install ends with this error and changes nothing.
    async fn decide(&self, proposal: &Proposal<'_>) -> anyhow::Result<Decision>;
}

/// The answer to a [`Proposal`].
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Install it, and grant this besides what program.toml grants already. Each request is granted as it stands
    /// here, whether it was asked for or not.
    Install(Vec<Request>),
    /// Change nothing.
    Decline,
}

/// Something to agree to.
#[derive(Debug)]
pub struct Proposal<'a> {
    /// What was fetched: its disclosure, its requests, its signature.
    pub candidate: &'a Candidate,
    /// What is to be done with it.
    pub operation: Operation,
    /// What program.toml grants it now.
    pub granted: &'a [Request],
    /// What it asks for beyond what was agreed to before: everything, where nothing was.
    pub more: &'a [&'a Request],
    /// What is installed now.
    pub previous: Option<Previous<'a>>,
}

/// What is to be done with a [`Candidate`].
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// A new entry of program.toml.
    Add,
    /// An entry that the user wrote into program.toml is installed with its grants.
    Adopt,
    /// What is installed is replaced. `None`: nothing differs from what was agreed to, so that no consent is needed.
    Update(Option<UpdateReason>),
}

/// What was installed before.
#[derive(Clone, Debug)]
pub struct Previous<'a> {
    /// What program.lock says of it.
    pub pin: &'a Pin,
    /// What is not as it was agreed to; `None` where an earlier haft noted nothing to compare with.
    pub changes: Option<Vec<Change>>,
}

/// Why an update has to be agreed to. Its text goes on after the name of the entry.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateReason {
    /// There is no pin.
    NotInstalled,
    /// It asks for what it did not ask for.
    AsksForMore,
    /// The signer is another one than before.
    OtherSigner {
        /// Who signed what is installed.
        before: Signer,
        /// Who signed what was fetched.
        now: Signer,
    },
    /// A version from before the one that is installed.
    Older {
        /// What is installed.
        before: semver::Version,
        /// What was fetched.
        now: semver::Version,
    },
    /// The same version with another content.
    SameVersion(semver::Version),
    /// It came from elsewhere.
    OtherSource(PackageSource),
    /// An earlier haft pinned it.
    NoDisclosure,
    /// Its content is another one.
    OtherContent,
    /// The same content tells of other tools.
    OtherTools,
}

impl fmt::Display for UpdateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled => f.write_str("was not installed before"),
            Self::AsksForMore => f.write_str("asks for more than was agreed to"),
            Self::OtherSigner { before, now } => {
                write!(f, "is signed with {}, and was with {}", now.describe(), before.describe())
            }
            Self::Older { before, now } => write!(f, "is older: {now}, and {before} is installed"),
            Self::SameVersion(version) => write!(f, "is still called {version}, and has another content"),
            Self::OtherSource(before) => {
                write!(f, "is installed from {}", haft_core::report::plain(&before.to_string()))
            }
            Self::NoDisclosure => {
                f.write_str("was pinned by an earlier haft, which did not note what it showed")
            }
            Self::OtherContent => f.write_str("is not what was agreed to"),
            Self::OtherTools => f.write_str("says something else of its tools than what was agreed to"),
        }
    }
}
