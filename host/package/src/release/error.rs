//! Why haft was not updated, and the way out.

use std::io;
use std::path::{Path, PathBuf};

use semver::Version;

use super::Owner;
use crate::Digest;
use crate::archive::ArchiveError;
use crate::download::DownloadError;
use crate::signature::SignatureError;

/// Why haft was not updated. Nothing was changed, except where it says so.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// There are no releases for this system or processor.
    #[error("there is no release of haft for {} on {}", std::env::consts::OS, std::env::consts::ARCH)]
    Machine,
    /// Another installer put it there.
    #[error("this haft was installed by {}, which has to update it", .0.who)]
    Owned(Owner),
    /// The running program has no place that is known.
    #[error("cannot find out where haft is: {0}")]
    Nowhere(String),
    /// No file can be made beside the program.
    #[error("cannot write in `{}`, where haft is: {source}", folder.display())]
    Unwritable {
        /// The folder with the two programs.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another process is updating the same programs.
    #[error("another `haft self-update` is at work in `{}`", .0.display())]
    Busy(PathBuf),
    /// Nothing is known that could have signed a release.
    #[error("no key is known that releases are signed with")]
    NoKey,
    /// It is not signed as it has to be.
    #[error("`{file}` is not trusted: {error}")]
    Signature {
        /// The file.
        file: String,
        /// What is wrong with its signature.
        error: SignatureError,
    },
    /// The release has nothing for this machine, or is of another version.
    #[error("the release has no haft{} for {target}", version.as_ref().map(|version| format!(" {version}")).unwrap_or_default())]
    None {
        /// What was asked for.
        version: Option<Version>,
        /// This machine's name in releases.
        target: String,
    },
    /// It cannot be fetched.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// The tarball is another one than was signed.
    #[error("`{name}` is not what SHA256SUMS says: {found}, and {expected} was expected")]
    Digest {
        /// The tarball.
        name: String,
        /// What came.
        found: Digest,
        /// What was signed.
        expected: Digest,
    },
    /// It cannot be unpacked.
    #[error("cannot unpack `{name}`: {error}")]
    Archive {
        /// The tarball.
        name: String,
        /// Why not.
        error: ArchiveError,
    },
    /// A program is not in it.
    #[error("`{name}` has no `{missing}` in it")]
    Missing {
        /// The tarball.
        name: String,
        /// The program.
        missing: String,
    },
    /// The new program does not run as it should.
    #[error("the new haft does not run on this machine: {0}")]
    Try(String),
    /// A file cannot be read or written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The second program could not take its place, and the first could not be taken back.
    #[error("`{}` is of the new version and haft of the old one: {why}", helper.display())]
    Half {
        /// The helper.
        helper: PathBuf,
        /// What failed, twice.
        why: String,
    },
}

impl ReleaseError {
    /// The way out, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Owned(owner) => Some(owner.command.clone()),
            Self::Unwritable { folder, .. } => Some(format!(
                "run it as the owner of `{}`, or install haft into a folder of your own by install.sh",
                folder.display()
            )),
            Self::Busy(_) => Some("wait until it is done".to_owned()),
            Self::NoKey => Some("`--key KEY` with the key that the publisher of haft gives".to_owned()),
            Self::Signature { error, .. } => Some(error.hint().to_owned()),
            Self::Half { .. } => Some(
                "haft works, and does without a helper of another version; run `haft self-update` again"
                    .to_owned(),
            ),
            Self::None { version: None, .. } | Self::Machine => {
                Some("build it from the sources: `cargo build --release`".to_owned())
            }
            _ => None,
        }
    }

    /// An error of a file.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
