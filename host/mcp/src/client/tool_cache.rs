//! The cache of servers' tool lists, one file for each server, so that tools are known without a start of the
//! server. Text that contains a secret is not written.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Config, ToolList};
use crate::unix_time;
use haft_core::encoding::hex;

/// Maximum age of a cached list that is used without a request to the server. A call requests the list anyway. This
/// limit is for an updated server that is never called because its new tools are unknown.
pub const MAX_AGE: Duration = Duration::from_hours(24);

/// The maximum age for a server whose files do not show changes, such as a server of a package runner, if it can be
/// queried in the background.
pub(super) const MAX_UNTOLD_AGE: Duration = Duration::from_mins(10);

/// Maximum size in bytes of a file; a list of tools has at most a quarter, stored as sent and as offered, and
/// prompts and resources together another quarter.
const MAX_FILE: u64 = 32 << 20;
/// Minimum age of an unused file that is removed when another file is written.
const MAX_UNUSED_AGE: Duration = Duration::from_hours(24 * 30);
/// Maximum number of files that are checked for their age.
const MAX_FILES: usize = 1000;
/// Changes with the format of the file.
const FORMAT: u32 = 6;

/// The protocol era of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Era {
    /// Unknown: the stateless one is tried first.
    #[default]
    Unknown,
    /// `initialize`, up to 2025-11-25.
    Handshake,
    /// `server/discover`, from 2026-07-28 on.
    Stateless,
}

/// The cached lists of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CachedTools {
    /// Seconds since 1970.
    pub(super) at: u64,
    pub(super) era: Era,
    pub(super) listed: ToolList,
}

impl CachedTools {
    pub(super) fn new(era: Era, listed: ToolList) -> Self {
        Self { at: unix_time().as_secs(), era, listed }
    }

    /// Returns the age of the list; infinite for a time in the future.
    pub(super) fn age(&self) -> Duration {
        unix_time().as_secs().checked_sub(self.at).map_or(Duration::MAX, Duration::from_secs)
    }

    /// Returns the content of `file`, if valid.
    pub(super) fn read(file: &Path) -> Option<Self> {
        let mut text = Vec::new();
        fs::File::open(file).ok()?.take(MAX_FILE).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes the list to `file` atomically.
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        remove_old(folder);
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut new, self)?;
        new.flush()?;
        new.persist(file)?;
        Ok(())
    }
}

/// Removes files that have not been written for [`MAX_UNUSED_AGE`].
fn remove_old(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.take(MAX_FILES).flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > MAX_UNUSED_AGE) {
            // Another haft may have been quicker.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the file in `folder` for the server with `config`. Any change that may change the server's tools leads to
/// another file. `workspace` is the server's working directory.
pub(super) fn file(folder: &Path, config: &Config, workspace: Option<&Path>) -> PathBuf {
    let mut digest = Sha256::new();
    config.endpoint.hash(&mut digest);
    let mut add = |part: &str| {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    };
    add(&FORMAT.to_string());
    add(&workspace.map(|workspace| workspace.display().to_string()).unwrap_or_default());
    for path in config.files(workspace) {
        add(&path.display().to_string());
        if let Ok(metadata) = fs::metadata(&path) {
            add(&format!("{} {} {}", metadata.len(), metadata.mtime(), metadata.mtime_nsec()));
        }
    }
    folder.join(hex(&digest.finalize())).with_extension("json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_read_again_and_nonsense_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("below/a.json");
        let memory = CachedTools::new(Era::Stateless, ToolList::default());
        memory.write(&file).unwrap();
        assert_eq!(CachedTools::read(&file), Some(memory.clone()));
        assert!(memory.age() < MAX_AGE);
        assert_eq!(CachedTools { at: unix_time().as_secs() + 100, ..memory }.age(), Duration::MAX);
        fs::write(&file, "{}").unwrap();
        assert_eq!(CachedTools::read(&file), None);
    }
}
