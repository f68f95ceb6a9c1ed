//! What a fetch works with: directories, bounds on whom to believe, and the confinement of `git`.

use std::path::Path;

use crate::oci::Access;
use crate::signature::Trust;
use crate::{Digest, Progress};
use haft_core::grant::Grant;
use haft_sandbox::confine::Confiner;

/// What a fetch works with.
#[derive(Clone, Debug)]
pub struct Fetching<'a> {
    /// An empty directory of this fetch alone. Whoever made it removes it.
    pub directory: &'a Path,
    /// What relative paths start from.
    pub base: &'a Path,
    /// What `~` means.
    pub home: &'a Path,
    /// Who hears how far it has come.
    pub progress: Progress,
    /// What [`Fetched::digest`](crate::Fetched::digest) must be, whoever serves it.
    pub expected: Option<Digest>,
    /// As whom registries are asked.
    pub access: &'a Access,
    /// Whose signature is wanted.
    pub trust: &'a Trust,
    /// What holds `git` to `grant`.
    pub confiner: &'a Confiner,
    /// What `git` may do besides writing `directory`.
    pub grant: &'a Grant,
}
