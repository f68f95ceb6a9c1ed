//! The settings of a fetch: directories, required signer and digest, and the confinement of `git`, `npm` and `uv`.

use std::path::Path;

use crate::oci::Access;
use crate::signature::{Trust, TrustRoot};
use crate::{Digest, Progress};
use haft_core::grant::Grant;
use haft_sandbox::confine::Confiner;

/// The settings of a fetch.
#[derive(Clone, Debug)]
pub struct Fetching<'a> {
    /// An empty directory for this fetch alone. The caller removes it.
    pub directory: &'a Path,
    /// The base of relative paths.
    pub base: &'a Path,
    /// The home directory, for `~`.
    pub home: &'a Path,
    /// Receives the progress of downloads.
    pub progress: Progress,
    /// The required value of [`Fetched::digest`](crate::Fetched::digest), from any server.
    pub expected: Option<Digest>,
    /// The credentials for registries.
    pub access: &'a Access,
    /// Whether secrets without a source are [`ForeignError::Secrets`](crate::ForeignError::Secrets).
    pub asks: bool,
    /// The required signer.
    pub trust: &'a Trust,
    /// The trust root of keyless signatures.
    pub root: &'a TrustRoot,
    /// Confines programs to `grants`.
    pub confiner: &'a Confiner,
    /// The rights of these programs besides writing `directory`.
    pub grants: &'a FetchGrants,
}

/// The rights of the programs of a fetch.
#[derive(Clone, Debug)]
pub struct FetchGrants {
    /// The grant of `git`, `npm` and `uv`.
    pub fetch: Grant,
    /// The rights of fetched code during its build.
    pub build: Grant,
}
