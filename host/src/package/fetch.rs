//! Brings a package from wherever it is to a temporary place, within bounds, and says what it is.
//! Installs nothing, and believes neither a name nor a header about what the bytes are.

use std::path::{Path, PathBuf};

use super::oci::{self, OciError};
use super::{Digest, PackageSource, Progress};
use crate::backend::confine::Confiner;
use crate::grant::Grant;

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
    /// What the fetched file must be, whoever serves it.
    pub expected: Option<Digest>,
    /// What holds `git` to `grant`.
    pub confiner: &'a Confiner,
    /// What `git` may do besides writing `directory`.
    pub grant: &'a Grant,
}

/// What was fetched, in [`Fetching::directory`].
#[derive(Debug)]
pub struct Fetched {
    /// What it is.
    pub content: Content,
    /// Of what was fetched: of the file; of the tree for a folder and a repository.
    pub digest: Digest,
    /// Of what is kept: of the component, or of the package's tree.
    pub kept: Digest,
    /// Bytes of all files.
    pub size: u64,
    /// The exact thing that the source meant, where that says more: a commit, a manifest's digest.
    pub resolved: Option<String>,
    /// Who signed it, where somebody did and it was checked.
    pub signer: Option<String>,
}

/// What a package is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A component: this file.
    Component(PathBuf),
    /// A folder with a program.toml.
    Tree(PathBuf),
}

/// Why a package could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// From a registry.
    #[error(transparent)]
    Oci(#[from] OciError),
}

/// Fetches `source`.
pub async fn fetch(source: &PackageSource, fetching: &Fetching<'_>) -> Result<Fetched, FetchError> {
    let pulled = oci::pull(&source.to_string(), fetching).await?;
    Ok(Fetched {
        content: Content::Component(pulled.file),
        kept: pulled.digest.clone(),
        resolved: Some(pulled.digest.to_string()),
        digest: pulled.digest,
        size: 0,
        signer: pulled.signer,
    })
}
