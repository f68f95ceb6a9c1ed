//! Installation as a library call: check, fetch, disclose, ask for consent, write program.toml and
//! program.lock, pin. Prints nothing and asks nothing: the caller supplies a [`Consent`].
//!
//! - [`Installer::add`]: adds an entry; `add.rs`.
//! - [`Installer::restore`]: installs entries of program.toml and program.lock that this machine lacks;
//!   `restore.rs`.
//! - [`Installer::update`]: fetches an entry again; `update.rs`.
//! - [`Installer::newer`]: looks for later versions; `newer.rs`.
//! - [`Installer::remove`]: removes entries from both files; `write.rs`.

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

/// Changes the installed entries of a [`Project`]. It reads the project as it was when it was opened; writes
/// are checked against the files' current content.
#[derive(Clone, Copy)]
pub struct Installer<'a> {
    /// The program to change. Relative sources start from its folder.
    pub project: &'a Project,
    /// The store of installed content.
    pub store: &'a Store,
    /// The home directory, for `~`.
    pub home: &'a Path,
    /// The credentials for registries.
    pub access: &'a Access,
    /// Receives the progress of downloads.
    pub progress: &'a Progress,
    /// Confines `git`, `npm` and `uv` to `fetch_grant`.
    pub confiner: &'a Confiner,
    /// The rights of `git`, `npm` and `uv` during a fetch, besides writing its temporary directory.
    pub fetch_grant: &'a Grant,
    /// Lists the tools of content that is not installed yet.
    pub tools: &'a dyn ToolLister,
}

/// The result of an installation.
#[derive(Clone, Debug)]
pub struct Installed {
    /// The pin in program.lock.
    pub pin: Pin,
    /// The granted requests, including earlier ones.
    pub granted: Vec<Request>,
    /// The names of the tools, as models see them.
    pub tools: Vec<String>,
}
