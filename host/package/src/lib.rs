//! Packages: finding, checking, installing and keeping other people's plugins. Runs none of their code.
//!
//! - [`Installer`]: adds, restores, updates and removes what a [`Project`] names, with the caller's [`Consent`].
//! - [`PackageSource`]: where one comes from, parsed from what a person writes.
//! - [`fetch()`]: brings it to a temporary place, within bounds, with its digest.

mod archive;
mod bundle;
mod digest;
pub mod disclosure;
mod download;
pub mod edit;
mod fetch;
mod folder;
mod git;
mod installer;
mod inventory;
mod kind;
mod listing;
mod lock;
pub mod oci;
mod parts;
mod progress;
mod project;
mod request;
pub mod signature;
mod store;
mod tags;

pub use self::bundle::{Bundle, BundleError, Offered, OfferedPlugin};
pub use self::digest::{Digest, DigestError, Hasher};
pub use self::fetch::{Content, FetchError, Fetched, Fetching, fetch};
pub use self::installer::{
    Added, Addition, Candidate, Consent, Decision, Expected, InstallError, Installed, Installer, Newer,
    Operation, Previous, Proposal, Restored, ToolLister, UpdateReason, Updated, source_stem,
};
pub use self::kind::Kind;
pub use self::listing::{Listing, TreeError};
pub use self::lock::{Lock, LockError, Pin, lock_path};
pub use self::parts::parts;
pub use self::progress::{Progress, Step};
pub use self::project::{Change, Project, ProjectEntry, ProjectError, Unchanged};
pub use self::request::{Limit, Request, more};
pub use self::store::{Held, Installing, Store, StoreError, SweepError, Swept, SweptEntry};
pub use haft_core::skill::Skill;
pub use haft_manifest::{PackageSource, SourceError};

/// The largest file that is fetched, and the most that the files of one package may have together:
/// ten times a component with a whole Python inside.
pub const MAX_SIZE: u64 = 256 << 20;
