//! Installing as a library call: check, fetch, disclose, ask for consent, write program.toml and program.lock, pin.
//! Prints nothing and asks nothing itself: the caller hands in a [`Consent`].
//!
//! - [`Installer::add`]: a new entry; `add.rs`.
//! - [`Installer::restore`]: what program.toml and program.lock name and this machine does not have; `restore.rs`.
//! - [`Installer::update`]: fetches an entry anew; `update.rs`.
//! - [`Installer::newer`]: looks for later versions; `newer.rs`.
//! - [`Installer::remove`]: takes entries out of both files; `write.rs`.

mod add;
mod candidate;
mod consent;
mod error;
mod lookup;
mod newer;
mod restore;
mod tools;
mod update;
mod write;

use std::path::Path;

pub use self::add::{Added, Addition};
pub use self::candidate::{Candidate, Expected, source_stem};
pub use self::consent::{Consent, Decision, Operation, Previous, Proposal, UpdateReason};
pub use self::error::InstallError;
pub use self::newer::Newer;
pub use self::restore::Restored;
pub use self::tools::ToolLister;
pub use self::update::Updated;
use crate::oci::Access;
use crate::{Pin, Progress, Project, Request, Store};
use haft_core::grant::Grant;
use haft_sandbox::confine::Confiner;

/// Changes what a [`Project`] has installed. It sees the project as it was when it was opened; what is written is
/// checked against the files as they are then.
#[derive(Clone, Copy)]
pub struct Installer<'a> {
    /// The program that is changed. Relative sources start from its folder.
    pub project: &'a Project,
    /// Where content is kept.
    pub store: &'a Store,
    /// What `~` means.
    pub home: &'a Path,
    /// The credentials for registries.
    pub access: &'a Access,
    /// Who hears how far a download has come.
    pub progress: &'a Progress,
    /// What holds `git` to `git_grant`.
    pub confiner: &'a Confiner,
    /// What `git` may do while it fetches, besides writing its own temporary directory.
    pub git_grant: &'a Grant,
    /// Lists the tools of what is not installed yet.
    pub tools: &'a dyn ToolLister,
}

/// What was installed.
#[derive(Clone, Debug)]
pub struct Installed {
    /// What program.lock says of it.
    pub pin: Pin,
    /// What it is granted, by this install and before.
    pub granted: Vec<Request>,
    /// The names of its tools, as a model is told of them.
    pub tools: Vec<String>,
}
