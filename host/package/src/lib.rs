//! Packages: finds, checks, installs and stores third-party plugins. Runs none of their code, except scripts of npm
//! packages and builds of source distributions at the user's request.
//!
//! - [`Installer`]: adds, restores, updates and removes the entries of a [`Project`], with the caller's
//!   [`Consent`].
//! - [`PackageSource`]: the source of a package, parsed from a user's text.
//! - [`fetch()`]: fetches a package into a temporary directory, within limits, and computes its digest.

pub mod agent_plugin;
mod archive;
mod bundle;
mod digest;
pub mod disclosure;
mod download;
pub mod edit;
mod fetch;
mod folder;
mod foreign;
mod git;
mod installer;
mod inventory;
mod listing;
mod lock;
pub mod oci;
mod parts;
mod progress;
mod project;
pub mod registry;
mod request;
mod runner;
pub mod search;
pub mod signature;
mod store;
mod tags;

use serde::{Deserialize, Serialize};

pub(crate) use self::bundle::BundleError;
pub use self::bundle::{Bundle, BundledSkill, Offered, OfferedPlugin};
pub use self::digest::{Digest, Hasher};
pub use self::fetch::{Content, FetchError, FetchGrants, Fetched, Fetching, fetch};
pub use self::foreign::{ForeignError, SecretField};
pub use self::installer::{
    Added, Addition, Candidate, Consent, Decision, Expected, InstallError, Installed, Installer, Newer,
    Operation, Previous, Proposal, Restored, ToolLister, Updated, source_stem,
};
pub use self::listing::Listing;
pub(crate) use self::listing::TreeError;
pub use self::lock::{Lock, Pin, ServerPin, lock_path};
pub use self::parts::parts;
pub use self::progress::{Progress, Step};
pub use self::project::{Change, Project, ProjectEntry, ProjectError};
pub use self::request::{Limit, Request, more, with_new};
pub use self::store::{Held, Installing, Store, StoreError, SweepError, Swept, SweptEntry};
pub use haft_core::skill::Skill;
pub use haft_manifest::{Foreign, Origin, PackageSource, SourceError};

/// Limit on the bytes of one fetched file, and of all files of one package: ten times a component with a Python
/// interpreter.
pub const MAX_SIZE: u64 = 256 << 20;

/// A table of program.toml with installable entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `[[packages]]`.
    Package,
    /// `[[plugins]]`.
    Plugin,
}

impl Kind {
    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Package => "packages",
            Self::Plugin => "plugins",
        }
    }

    pub(crate) fn source_key(self) -> &'static str {
        match self {
            Self::Package => "source",
            Self::Plugin => "component",
        }
    }
}
