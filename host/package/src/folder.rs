//! Copies a package's folder: only the regular files that belong to the package ([`parts`]). Refuses every link
//! without a check of its target.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::MAX_SIZE;
use super::inventory::{Inventory, MANIFEST, Unfit};
use super::listing::{TreeError, io_error, open, refuse_special, walk};
use super::parts::{is_left_out, parts};
use haft_manifest::Manifest;

/// Copies the package's files from the folder `from` to the new folder `to`. Returns the paths of the other
/// files, without version control data and generated files.
pub(super) fn copy(from: &Path, to: &Path) -> Result<Vec<String>, TreeError> {
    // Entries that no package may have are refused, whether or not they belong to the package.
    let mut files = BTreeSet::new();
    walk((from, ""), &mut Inventory::default(), &is_left_out, &mut |_, path, _| {
        files.insert(path);
        Ok(())
    })?;
    // An invalid manifest is reported when it is read from the copy.
    let included = match Manifest::load(&from.join(MANIFEST)) {
        Ok(manifest) => parts(from, &manifest),
        Err(_) => BTreeSet::from([MANIFEST.to_owned()]),
    };
    fs::create_dir(to).map_err(io_error("create folder", to))?;
    let mut inventory = Inventory::default();
    for path in &included {
        let target = to.join(path);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(io_error("create folder", folder))?;
        }
        copy_listed(&from.join(path), &target, path, &mut inventory)?;
    }
    Ok(files.into_iter().filter(|path| !included.contains(path)).collect())
}

fn copy_listed(from: &Path, to: &Path, path: &str, inventory: &mut Inventory) -> Result<(), TreeError> {
    let file = open(from).map_err(io_error("open", from))?;
    let metadata = file.metadata().map_err(io_error("look at", from))?;
    refuse_special(metadata.file_type(), path)?;
    inventory.file(path, metadata.len())?;
    let is_executable = metadata.permissions().mode() & 0o100 != 0;
    let written = write(file, to, metadata.len(), is_executable).map_err(io_error("copy", from))?;
    // A file that shrinks during the copy was counted with its old size; a file that grows is cut off.
    if written < metadata.len() { Err(TreeError::Changed(path.to_owned())) } else { Ok(()) }
}

/// Copies one file of at most [`MAX_SIZE`] bytes to a temporary file.
pub(super) fn copy_file(from: &Path, to: &Path) -> Result<u64, TreeError> {
    let file = open_followed(from).map_err(io_error("open", from))?;
    let metadata = file.metadata().map_err(io_error("look at", from))?;
    refuse_special(metadata.file_type(), &from.to_string_lossy())?;
    if metadata.len() > MAX_SIZE {
        return Err(Unfit::Size.into());
    }
    write(file, to, MAX_SIZE, false).map_err(io_error("copy", from))
}

/// Opens a path that the user named; it may be a link.
fn open_followed(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}

/// Writes a new read-only file with at most `most` bytes of `from`. Does not sync it: the content may still be
/// refused, and [`sync_tree`] syncs the accepted content.
pub(super) fn write(from: impl Read, to: &Path, most: u64, is_executable: bool) -> io::Result<u64> {
    let mode = if is_executable { 0o555 } else { 0o444 };
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    let written = io::copy(&mut from.take(most), &mut file)?;
    file.flush()?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    Ok(written)
}

pub(super) fn sync_tree(folder: &Path) -> Result<(), TreeError> {
    for entry in fs::read_dir(folder).map_err(io_error("list", folder))? {
        let entry = entry.map_err(io_error("list", folder))?;
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) { sync_tree(&path)? } else { sync(&path)? }
    }
    sync(folder)
}

/// Syncs one file, or the directory entries of one folder.
pub(super) fn sync(path: &Path) -> Result<(), TreeError> {
    File::open(path).and_then(|opened| opened.sync_all()).map_err(io_error("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Listing;

    fn place() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        fs::create_dir(&from).unwrap();
        (directory, from, to)
    }

    /// S10: files that do not belong to a package are not copied, and modes are reduced.
    #[test]
    fn what_does_not_belong_to_a_package_is_left_where_it_is() {
        let (_directory, from, to) = place();
        for folder in [".git", "target", "sub/node_modules", ".venv", "bin"] {
            fs::create_dir_all(from.join(folder)).unwrap();
            fs::write(from.join(folder).join("file"), "").unwrap();
        }
        for file in ["program.lock", "sub/notes", "README.md"] {
            fs::write(from.join(file), "text").unwrap();
        }
        fs::write(from.join("program.toml"), "").unwrap();
        fs::set_permissions(from.join("bin/file"), fs::Permissions::from_mode(0o4777)).unwrap();
        assert_eq!(copy(&from, &to).unwrap(), ["sub/notes"]);
        let (listing, _) = Listing::from_folder(&to).unwrap();
        let paths: Vec<_> = listing.paths().collect();
        assert_eq!(paths, ["README.md", "bin/file", "program.toml"]);
        let mode = |path| fs::metadata(to.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("program.toml"), mode("bin/file")), (0o444, 0o555));
    }

    /// PR08: a link is refused before its target is read.
    #[test]
    fn no_link_is_followed() {
        let (_directory, from, to) = place();
        std::os::unix::fs::symlink("/etc/passwd", from.join("passwd")).unwrap();
        let error = copy(&from, &to).unwrap_err().to_string();
        assert!(error.contains("`passwd` is a symbolic link"), "{error}");
        fs::remove_file(from.join("passwd")).unwrap();
        std::os::unix::fs::symlink("/etc", from.join("etc")).unwrap();
        assert!(!to.exists());
        assert!(copy(&from, &to).unwrap_err().to_string().contains("`etc` is a symbolic link"));
    }
}
