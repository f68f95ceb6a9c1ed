//! Packages from OCI registries. Trusts no registry for what was fetched from it.

use std::path::PathBuf;

use super::{Digest, Fetching};

/// What a registry gave.
#[derive(Debug)]
pub struct Pulled {
    /// The file, in [`Fetching::directory`].
    pub file: PathBuf,
    /// What the registry says it is: the layer's media type. The bytes themselves decide.
    pub kind: String,
    /// Of the manifest.
    pub digest: Digest,
    /// Who signed it, where somebody did and it was checked.
    pub signer: Option<String>,
}

/// Why nothing could be had from a registry.
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    /// Registries are not spoken to.
    #[error("packages cannot be fetched from registries")]
    Unsupported,
}

/// Fetches the one layer of `reference` (without `oci://`) to a file of at most
/// [`MAX_SIZE`](super::MAX_SIZE) bytes, whose digest was checked against the manifest's.
#[expect(clippy::unused_async, reason = "what speaks to a registry waits for it")]
pub async fn pull(_reference: &str, _fetching: &Fetching<'_>) -> Result<Pulled, OciError> {
    Err(OciError::Unsupported)
}
