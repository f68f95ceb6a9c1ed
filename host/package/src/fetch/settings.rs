//! What a fetch works with: directories, required signers and digests, and the confinement of `git`.

use std::path::Path;

use crate::oci::Access;
use crate::signature::Trust;
use crate::{Digest, Progress};
use haft_core::grant::Grant;
use haft_sandbox::confine::Confiner;

/// What a fetch works with.
#[derive(Clone, Debug)]
pub struct Fetching<'a> {
    /// An empty directory of this fetch alone. The caller removes it.
    pub directory: &'a Path,
    /// What relative paths start from.
    pub base: &'a Path,
    /// What `~` means.
    pub home: &'a Path,
    /// Who hears how far it has come.
    pub progress: Progress,
    /// The required value of [`Fetched::digest`](crate::Fetched::digest), whichever server sends it.
    pub expected: Option<Digest>,
    /// The credentials for registries.
    pub access: &'a Access,
    /// The signer that is required.
    pub trust: &'a Trust,
    /// What holds `git` to `grant`.
    pub confiner: &'a Confiner,
    /// What `git` may do besides writing `directory`.
    pub grant: &'a Grant,
}
