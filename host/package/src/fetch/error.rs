//! Errors of a fetch from any kind of source, each with its hint.

use std::path::{Path, PathBuf};

use crate::Digest;
use crate::agent_plugin::MarketplaceError;
use crate::agent_plugin::marketplace::told;
use crate::archive::ArchiveError;
use crate::download::DownloadError;
use crate::foreign::{self, ForeignError};
use crate::listing::TreeError;
use crate::oci::{NotAReference, OciError};
use crate::runner::ProgramError;
use crate::signature::SignatureError;

/// Reasons why a package cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A registry failed.
    #[error(transparent)]
    Oci(#[from] OciError),
    /// The registry reference is invalid.
    #[error(transparent)]
    Reference(#[from] NotAReference),
    /// The signature is missing or invalid.
    #[error("`{what}` is refused: {error}")]
    Signature {
        /// The source.
        what: String,
        /// The error of the signature check.
        error: SignatureError,
    },
    /// The download failed.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// git failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// An MCP server in another format cannot become a package.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// The archive cannot be unpacked.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A marketplace has no such plugin.
    #[error(transparent)]
    Marketplace(#[from] MarketplaceError),
    /// A file or folder cannot be read, written or copied.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The folder has no program.toml.
    #[error("no `program.toml` or `plugin.json` in `{}`: a package's folder has one at its top", .0.display())]
    NoManifest(PathBuf),
    /// The bytes are neither a component nor an archive.
    #[error("`{0}` is neither a WebAssembly component nor a tar archive")]
    Form(String),
    /// The bytes are a zip archive, and the name is not that of an MCP bundle.
    #[error(
        "`{0}` is a zip archive: haft reads zip archives only as MCP bundles, with the extension `.mcpb`"
    )]
    Zip(String),
    /// The digest differs from the expected digest.
    #[error("`{source_text}` is {found}; expected {expected}")]
    Digest {
        /// The source.
        source_text: String,
        /// The digest of the fetched bytes.
        found: Digest,
        /// The expected digest.
        expected: Digest,
    },
}

impl FetchError {
    /// Returns a hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Program(error) => return error.hint().map(str::to_owned),
            Self::Foreign(error) => return error.hint(),
            Self::NoManifest(folder) => {
                return Some(told(folder).unwrap_or_else(|| foreign::what_is(folder)));
            }
            Self::Digest { .. } => "the served content has changed; do not install it unless you know why",
            Self::Zip(name)
                if Path::new(name).extension().is_some_and(|kind| kind.eq_ignore_ascii_case("dxt")) =>
            {
                foreign::DXT
            }
            Self::Form(_) => {
                "a web page is not a package; write the URL of an MCP server as `url` of an \
                 `[[mcp_servers]]` entry in program.toml"
            }
            Self::Zip(_) => "pack the package as `.tar.gz`, with `haft plugin pack`",
            Self::Signature { error, .. } => error.hint(),
            Self::Oci(error) => return error.hint(),
            Self::Reference(error) => return Some(error.hint()),
            _ => return None,
        };
        Some(text.to_owned())
    }
}
