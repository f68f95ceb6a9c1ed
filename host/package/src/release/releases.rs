//! Where releases of haft are: at a repository's host, at an address, or in a folder. Judges nothing that it fetches.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use semver::Version;

use super::ReleaseError;
use crate::download::{self, DownloadError};
use crate::signature::{BESIDE, MAX_BESIDE};
use crate::{Progress, folder};

/// A place with the files of releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Releases {
    /// `https://host/owner/haft`: every release, each at an address of its own.
    Repository(String),
    /// The address that the files' names follow: one release, or a mirror's newest.
    Address(String),
    /// A folder with the files.
    Folder(PathBuf),
}

impl Releases {
    /// What a person gives in place of the repository: an address, or a folder.
    pub fn from_argument(text: &str) -> Self {
        if text.contains("://") {
            Self::Address(text.trim_end_matches('/').to_owned())
        } else {
            Self::Folder(text.into())
        }
    }

    /// Fetches the file `name`, of at most `most` bytes, of the release `version` or the newest one, to the new
    /// file `to`.
    pub(super) async fn fetch(
        &self,
        version: Option<&Version>,
        name: &str,
        to: &Path,
        most: u64,
        progress: &Progress,
    ) -> Result<(), ReleaseError> {
        let address = match (self, version) {
            (Self::Repository(address), Some(version)) => format!("{address}/releases/download/v{version}"),
            (Self::Repository(address), None) => format!("{address}/releases/latest/download"),
            (Self::Address(address), _) => address.clone(),
            (Self::Folder(folder), _) => return copy(&folder.join(name), to, most),
        };
        download::download(&format!("{address}/{name}"), to, most, progress).await?;
        Ok(())
    }

    /// Fetches the signature of the file `name`, to lie beside its copy `to`. None is no error here.
    pub(super) async fn fetch_signature(
        &self,
        version: Option<&Version>,
        name: &str,
        to: &Path,
        progress: &Progress,
    ) -> Result<(), ReleaseError> {
        let (name, mut beside) = (format!("{name}{BESIDE}"), to.as_os_str().to_owned());
        beside.push(BESIDE);
        match self.fetch(version, &name, Path::new(&beside), MAX_BESIDE as u64, progress).await {
            Err(ReleaseError::Download(DownloadError::Status { .. })) => Ok(()),
            Err(ReleaseError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
            fetched => fetched,
        }
    }
}

fn copy(from: &Path, to: &Path, most: u64) -> Result<(), ReleaseError> {
    let file = File::open(from).map_err(ReleaseError::io("read", from))?;
    let written = folder::write(file, to, most + 1, false).map_err(ReleaseError::io("copy", from))?;
    if written > most {
        let source = io::Error::other(format!("it is larger than {most} bytes"));
        return Err(ReleaseError::io("copy", from)(source));
    }
    Ok(())
}
