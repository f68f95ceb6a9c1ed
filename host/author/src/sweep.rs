//! Removes compilers that no build has used for a while. haft keeps no list of projects, so each build records
//! the time of use; a project that needs a removed compiler installs it again.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

/// The time for which an unused compiler is kept: longer than a holiday.
pub const UNUSED: Duration = Duration::from_hours(30 * 24);

/// Limit on the folders that are measured below one compiler: Go has some two thousand.
const MAX_FOLDERS: usize = 100_000;

/// Limit on the characters of a compiler's name.
const MAX_NAME: usize = 200;

/// The folder in haft's cache with the compilers that projects share.
pub(crate) const TOOLCHAINS: &str = "toolchains";

/// The file in a compiler's folder with a copy of the `requirements.txt` that it was installed for.
pub(crate) const INSTALLED: &str = "haft-installed.txt";

/// The extension of the file beside a compiler's folder that is locked during an installation, and whose
/// modification time is that of the last build.
const LOCK: &str = "lock";

/// An unused compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// The first line of the compiler's `requirements.txt`.
    pub name: String,
    /// The number of bytes of the compiler's files.
    pub size: u64,
}

/// Returns the file that is locked while the compiler in `folder` is installed.
pub(crate) fn lock_of(folder: &Path) -> PathBuf {
    folder.with_extension(LOCK)
}

/// Records that a build uses the compiler in `folder`. A failure does not fail the build.
pub(crate) fn used(folder: &Path) {
    let noted = File::options()
        .write(true)
        .open(lock_of(folder))
        .and_then(|file| file.set_modified(SystemTime::now()));
    if let Err(error) = noted {
        tracing::debug!(folder = %folder.display(), %error, "cannot record the use of a compiler");
    }
}

/// Removes the compilers in haft's `cache` that were not used for [`UNUSED`]; with `dry_run` only lists them.
/// Skips compilers that are being installed.
///
/// # Errors
/// A folder cannot be read or removed.
pub fn sweep(cache: &Path, dry_run: bool) -> io::Result<Vec<Unused>> {
    let entries = match fs::read_dir(cache.join(TOOLCHAINS)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut swept = Vec::new();
    for entry in entries {
        let folder = entry?.path();
        if folder.symlink_metadata()?.is_dir() {
            swept.extend(sweep_one(&folder, dry_run)?);
        }
    }
    swept.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(swept)
}

fn sweep_one(folder: &Path, dry_run: bool) -> io::Result<Option<Unused>> {
    let file = match File::open(lock_of(folder)) {
        // The folder is of an earlier haft, or not a compiler.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() || !is_old(&file)? {
        return Ok(None);
    }
    let named = fs::read_to_string(folder.join(INSTALLED)).unwrap_or_default();
    let name = named.lines().next().unwrap_or("half a compiler").chars().take(MAX_NAME).collect();
    let unused = Unused { name, size: size(folder)? };
    if !dry_run {
        // The lock file stays: builds may be waiting for its lock.
        fs::remove_dir_all(folder)?;
    }
    Ok(Some(unused))
}

fn is_old(file: &File) -> io::Result<bool> {
    let used = file.metadata()?.modified()?;
    Ok(used.elapsed().is_ok_and(|since| since >= UNUSED))
}

/// Returns the bytes of the files below `folder`; does not follow links.
fn size(folder: &Path) -> io::Result<u64> {
    let (mut folders, mut bytes) = (vec![folder.to_owned()], 0);
    for _ in 0..MAX_FOLDERS {
        let Some(folder) = folders.pop() else { break };
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += metadata.len();
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a compiler that was used `days` days ago.
    fn compiler(toolchains: &Path, name: &str, days: u64) -> PathBuf {
        let folder = toolchains.join(name);
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("bin/go"), "12345").unwrap();
        fs::write(folder.join(INSTALLED), format!("{name}==1\n")).unwrap();
        let lock = File::create(lock_of(&folder)).unwrap();
        lock.set_modified(SystemTime::now() - Duration::from_hours(days * 24)).unwrap();
        folder
    }

    #[test]
    fn what_was_not_used_for_a_month_goes() {
        let place = tempfile::tempdir().unwrap();
        let (cache, toolchains) = (place.path(), place.path().join(TOOLCHAINS));
        assert_eq!(sweep(cache, false).unwrap(), []);
        let (old, young) = (compiler(&toolchains, "old", 31), compiler(&toolchains, "young", 29));
        let held = compiler(&toolchains, "held", 99);
        let lock = File::open(lock_of(&held)).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let again = compiler(&toolchains, "again", 99);
        used(&again);
        fs::create_dir(toolchains.join("strange")).unwrap();
        let unused = [Unused { name: "old==1".into(), size: 12 }];
        assert_eq!(sweep(cache, true).unwrap(), unused);
        assert!(old.exists());
        assert_eq!(sweep(cache, false).unwrap(), unused);
        assert!(!old.exists() && young.exists() && held.exists() && again.exists());
        assert!(toolchains.join("strange").exists());
        drop(lock);
        assert_eq!(sweep(cache, false).unwrap().len(), 1);
        assert!(!held.exists());
    }
}
