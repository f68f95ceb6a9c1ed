//! Whether a page is open: a file is locked while a browser shows the page.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::{Desk, is_held, names};
use haft_core::encoding::hex;
use haft_core::random;
use haft_core::sync::Lock;

/// The prefix of the files.
const OPEN: &str = "open-";

/// How long a page counts as open after its last browser is gone: a reload takes less.
pub(super) const RELOAD: Duration = Duration::from_secs(10);

/// Marks a page as open, as long as a browser shows it.
pub(crate) struct Presence {
    desk: Desk,
    now: Lock<Weak<Sign>>,
}

/// A browser that shows the page.
pub(crate) struct Shown(Option<Arc<Sign>>);

/// The locked file.
struct Sign {
    path: PathBuf,
    _file: File,
}

impl Desk {
    /// Whether a browser shows a page of this user. Removes the files of pages that have ended.
    pub(crate) fn is_open(&self) -> io::Result<bool> {
        for name in names(&self.folder, |name| name.starts_with(OPEN))? {
            let path = self.folder.join(name);
            match is_held(&path)? {
                Some(true) => return Ok(true),
                Some(false) => drop(fs::remove_file(path)),
                None => {}
            }
        }
        Ok(false)
    }
}

impl Presence {
    pub(crate) fn new(desk: Desk) -> Self {
        Self { desk, now: Lock::default() }
    }

    /// Records that a browser shows the page.
    pub(crate) fn enter(&self) -> io::Result<Shown> {
        let mut now = self.now.lock();
        let is_there = |sign: &Arc<Sign>| sign.path.exists();
        if let Some(sign) = now.upgrade().filter(is_there) {
            return Ok(Shown(Some(sign)));
        }
        let sign = Arc::new(Sign::raise(&self.desk)?);
        *now = Arc::downgrade(&sign);
        Ok(Shown(Some(sign)))
    }
}

impl Sign {
    fn raise(desk: &Desk) -> io::Result<Self> {
        let name = format!("{OPEN}{}-{}", std::process::id(), hex(&random::bytes::<8>()?));
        let (path, new) = (desk.folder.join(&name), desk.folder.join(format!(".{name}")));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        // Locked before it can be found: an unlocked file is removed.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&new, &path)?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for Shown {
    /// The page counts as open for a while longer: the browser may be reloading it.
    fn drop(&mut self) {
        if let (Some(sign), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                tokio::time::sleep(RELOAD).await;
                drop(sign);
            });
        }
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
