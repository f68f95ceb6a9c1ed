//! Compilers from `requirements.txt` that several projects share: each is installed once in haft's cache, under
//! the digest of that file, and the project's `.venv` is a link to it. Go or zig takes some hundred megabytes.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};
use xxhash_rust::xxh3::xxh3_128;

use super::venv;
use crate::{Build, Tool, sweep};

/// The interval and the number of attempts to lock a folder that another build fills: one hour together.
const POLL: Duration = Duration::from_millis(200);
const MOST_POLLS: usize = 5 * 60 * 60;

/// Installs the packages of `requirements.txt` into `.venv`, if they changed. A `.venv` that is a folder is not
/// replaced by a link.
pub(super) async fn ensure(build: &Build<'_>) -> anyhow::Result<()> {
    let (link, required) = (build.path(venv::FOLDER), venv::required(build)?);
    if link.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return venv::ensure(build).await;
    }
    if venv::is_filled(&link, &required) {
        // The link may be the author's own and lead elsewhere.
        let shared_folder = link.read_link().ok().filter(|folder| folder.parent() == Some(&build.toolchains));
        if let Some(folder) = shared_folder {
            sweep::used(&folder);
        }
        return Ok(());
    }
    let python = build.find(&venv::PYTHON)?;
    // A virtual environment depends on the Python version.
    let version =
        build.ask(&Tool::new(python).args(["-c", "import sys; print(sys.version, sys.base_prefix)"])).await?;
    let named = [version.unwrap_or_default().as_bytes(), &required].concat();
    let folder = build.toolchains.join(format!("{:032x}", xxh3_128(&named)));
    let shown = build.toolchains.display();
    std::fs::create_dir_all(&build.toolchains).with_context(|| format!("cannot create folder `{shown}`"))?;
    let _lock = lock(build, &sweep::lock_of(&folder)).await?;
    sweep::used(&folder);
    if !venv::is_filled(&folder, &required) {
        venv::fill(build, &folder, &required).await?;
    }
    point(&link, &folder).with_context(|| format!("cannot make the link `{}`", link.display()))
}

/// Locks the folder against other builds until the returned file is dropped.
async fn lock(build: &Build<'_>, path: &Path) -> anyhow::Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create `{}`", path.display()))?;
    for poll in 0..MOST_POLLS {
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(file);
        }
        if poll == 0 {
            build.announce("another build installs the same; waiting for it");
        }
        tokio::time::sleep(POLL).await;
    }
    anyhow::bail!("`{}` is held by another build for an hour", path.display())
}

/// Makes `link` point to `folder`, replacing an existing link.
fn point(link: &Path, folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(link) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(folder, link)
}
