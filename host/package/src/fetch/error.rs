//! Why a package could not be fetched, whatever it was fetched with, and the way out.

use std::io;
use std::path::PathBuf;

use crate::Digest;
use crate::archive::ArchiveError;
use crate::download::DownloadError;
use crate::git::GitError;
use crate::listing::TreeError;
use crate::oci::{NotAReference, OciError};
use crate::signature::SignatureError;

/// Why a package could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// It cannot be read or written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// From a registry.
    #[error(transparent)]
    Oci(#[from] OciError),
    /// What should name a thing in a registry does not.
    #[error(transparent)]
    Reference(#[from] NotAReference),
    /// Not signed as it has to be.
    #[error("`{what}` is refused: {error}")]
    Signature {
        /// What was fetched.
        what: String,
        /// What is wrong.
        error: SignatureError,
    },
    /// By HTTPS.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// By git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// An archive that cannot be unpacked.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A folder that cannot be taken over.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A folder that is none.
    #[error("no `program.toml` in `{}`: a package's folder has one at its top", .0.display())]
    NoManifest(PathBuf),
    /// Something else altogether.
    #[error("`{0}` is neither a WebAssembly component nor a tar archive")]
    Form(String),
    /// It is not what was expected.
    #[error("`{source_text}` is {found}, and {expected} was expected")]
    Digest {
        /// Where from.
        source_text: String,
        /// What came.
        found: Digest,
        /// What should have come.
        expected: Digest,
    },
}

impl FetchError {
    /// The way out, where there is one.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Git(GitError::Missing) => "install git, or name an archive of the repository",
            Self::Git(GitError::Failed { .. }) => "`git ls-remote URL` tells what it has",
            Self::NoManifest(_) => "`haft init` writes one; a component alone is named by its file",
            Self::Digest { .. } => "what is served has changed; do not install it unless you know why",
            Self::Signature { error, .. } => error.hint(),
            Self::Oci(error) => return error.hint(),
            Self::Reference(error) => return Some(error.hint()),
            _ => return None,
        };
        Some(text.to_owned())
    }
}
