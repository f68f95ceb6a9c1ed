//! Copies the folder of a plugin: all of its files, and the targets of its links within the folder. A link that
//! points outside the folder is omitted, which is the narrowest failure that §4.1 defines for it. The kernel resolves
//! every path below one open folder.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use haft_core::grant::{Folder, Kind as FolderKind, Root};

use crate::MAX_SIZE;
use crate::folder::write;
use crate::inventory::Inventory;
use crate::listing::{TreeError, io_error, joined};

/// Directories of version control systems, which are not a part of a plugin.
const HISTORY: &[&str] = &[".git", ".hg", ".svn"];

/// Maximum number of entries of one folder; the inventory has this limit for all of them.
const MAX_ENTRIES: usize = 10_001;

/// Copies `from` to the new folder `to`. Returns the omitted paths, one line each.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<Vec<String>, TreeError> {
    let root = Root::resolve(Path::new("/"), from).and_then(|root| root.folder());
    let root = root.map_err(io_error("open", from))?;
    fs::create_dir(to).map_err(io_error("create folder", to))?;
    let mut copying =
        Copying { root: &root, from, to, inventory: Inventory::default(), left_out: BTreeSet::new() };
    copying.folder("", 0)?;
    Ok(copying.left_out.into_iter().collect())
}

/// Maximum number of nested links to folders that are followed: a second link may lead to the first.
const MAX_LINKS: usize = 1;

struct Copying<'a> {
    root: &'a Folder,
    from: &'a Path,
    to: &'a Path,
    inventory: Inventory,
    left_out: BTreeSet<String>,
}

impl Copying<'_> {
    /// Copies the folder `inside`, which was reached over `links` links.
    fn folder(&mut self, inside: &str, links: usize) -> Result<(), TreeError> {
        let shown = self.from.join(inside);
        let folder = self.root.enter(Path::new(inside)).map_err(io_error("open", &shown))?;
        for entry in folder.list(MAX_ENTRIES).map_err(io_error("list", &shown))? {
            if HISTORY.iter().any(|name| entry.name == *name) {
                continue;
            }
            let path = joined(inside, &entry.name)?;
            match entry.kind {
                FolderKind::File => self.file(&path)?,
                FolderKind::Folder => self.inner(&path, links)?,
                FolderKind::Other => self.link(&path, links)?,
            }
        }
        Ok(())
    }

    fn inner(&mut self, path: &str, links: usize) -> Result<(), TreeError> {
        self.inventory.folder(path)?;
        let target = self.to.join(path);
        fs::create_dir(&target).map_err(io_error("create folder", &target))?;
        self.folder(path, links)
    }

    fn file(&mut self, path: &str) -> Result<(), TreeError> {
        let shown = self.from.join(path);
        let content = self.root.read(Path::new(path), MAX_SIZE).map_err(io_error("read", &shown))?;
        self.inventory.file(path, content.size)?;
        let target = self.to.join(path);
        let written = write(content.bytes.as_slice(), &target, content.size, content.executable);
        written.map_err(io_error("write", &target))?;
        Ok(())
    }

    /// Copies the target of a link within the plugin.
    fn link(&mut self, path: &str, links: usize) -> Result<(), TreeError> {
        let is_folder = self.root.enter(Path::new(path)).is_ok();
        let copied = match is_folder {
            true if links < MAX_LINKS => self.inner(path, links + 1),
            true => Err(TreeError::Changed(path.to_owned())),
            false => self.file(path),
        };
        match copied {
            Err(TreeError::Io { source, .. }) if is_refused(&source) => {
                self.left_out
                    .insert(format!("{path} (a link to a target outside the plugin, or to no file)"));
                Ok(())
            }
            Err(TreeError::Changed(path)) => {
                self.left_out.insert(format!("{path} (a link to a parent folder)"));
                Ok(())
            }
            copied => copied,
        }
    }
}

fn is_refused(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, NotFound, PermissionDenied};
    let is_loop = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    is_loop || matches!(error.kind(), NotFound | PermissionDenied | InvalidInput)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// §4.1: links within the plugin are followed, and other links are omitted and reported.
    #[test]
    fn a_link_leads_nowhere_but_into_the_plugin() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir_all(from.join("skills/a")).unwrap();
        fs::write(from.join("skills/a/SKILL.md"), "Do.").unwrap();
        fs::write(place.path().join("secret"), "x").unwrap();
        for (target, link) in [
            ("skills/a", "again"),
            ("skills/a/SKILL.md", "text"),
            ("../secret", "out"),
            ("/etc/passwd", "etc"),
            ("nothing", "dangling"),
            ("..", "skills/up"),
        ] {
            symlink(target, from.join(link)).unwrap();
        }
        fs::create_dir(from.join(".git")).unwrap();
        fs::write(from.join(".git/config"), "").unwrap();
        let left_out = copy(&from, &to).unwrap();
        let names: Vec<_> = left_out.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(fs::read_to_string(to.join("again/SKILL.md")).unwrap(), "Do.");
        assert_eq!(fs::read_to_string(to.join("text")).unwrap(), "Do.");
        assert!(["dangling", "etc", "out"].iter().all(|name| names.contains(name)), "{left_out:?}");
        assert!(!to.join("out").exists() && !to.join("etc").exists() && !to.join(".git").exists());
        assert_eq!(fs::metadata(to.join("text")).unwrap().permissions().mode() & 0o777, 0o444);
    }
}
