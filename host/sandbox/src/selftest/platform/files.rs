//! Attempts on files without a grant. Touches only files of the fixture; a disk is only opened, not read.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{CWD, FileType, Mode, OFlags, XattrFlags, mknodat, setxattr};

use super::tried::Brief;
use super::{fixture, raw};
use crate::selftest::Outcome;

/// Limit on the device files that are checked in one directory; a large machine has some hundreds.
const MAX_DEVICES: usize = 1000;
/// Set-user-ID, and readable and executable for all users.
const SET_USER_ID: u32 = 0o4755;

pub(super) fn make(brief: &Brief) -> Outcome {
    Outcome::by("a file was made", fs::write(brief.outside.join(fixture::MADE), "escaped"))
}

pub(super) fn change(brief: &Brief) -> Outcome {
    Outcome::by("it was written to", append(&brief.outside.join(fixture::CHANGED)))
}

pub(super) fn empty(brief: &Brief) -> Outcome {
    let path = brief.outside.join(fixture::EMPTIED);
    let opened = File::options().write(true).truncate(true).open(&path).map(drop);
    Outcome::by_any([
        ("it was emptied when opened", opened),
        ("it was emptied unopened", raw::truncate(&path)),
    ])
}

pub(super) fn remove(brief: &Brief) -> Outcome {
    let path = brief.outside.join(fixture::REMOVED);
    let moved = fs::rename(&path, brief.workspace.join(fixture::REMOVED));
    Outcome::by_any([("it was moved", moved), ("it was removed", fs::remove_file(&path))])
}

/// Writes through a symbolic link and a hard link in the workspace to a file outside.
pub(super) fn through_links(brief: &Brief) -> Outcome {
    let path = brief.outside.join(fixture::LINKED);
    let [soft, hard] = ["soft", "hard"].map(|name| brief.workspace.join(name));
    let by_name = symlink(&path, &soft).and_then(|()| append(&soft));
    Outcome::by_any([
        ("it was written to by a symbolic link", by_name),
        ("a hard link to it was made", fs::hard_link(&path, &hard)),
    ])
}

pub(super) fn mode(brief: &Brief) -> Outcome {
    let path = brief.outside.join(fixture::MODE);
    let mode = Permissions::from_mode(0o777);
    let open = File::open(&path).and_then(|file| file.set_permissions(mode.clone()));
    Outcome::by_any([
        ("its mode was changed", fs::set_permissions(&path, mode)),
        ("its mode was changed while it was open for reading", open),
    ])
}

pub(super) fn time(brief: &Brief) -> Outcome {
    let file = File::open(brief.outside.join(fixture::TIME));
    Outcome::by("its time was changed", file.and_then(|file| file.set_modified(SystemTime::now())))
}

pub(super) fn label(brief: &Brief) -> Outcome {
    let path = brief.outside.join(fixture::LABEL);
    let set = setxattr(&path, fixture::ATTRIBUTE, b"escaped", XattrFlags::empty());
    Outcome::by("an attribute was set", set.map_err(Into::into))
}

/// Reads the file under every path that leads to it.
pub(super) fn read_hidden(brief: &Brief) -> Outcome {
    let below = brief.hidden.strip_prefix("/").unwrap_or(&brief.hidden);
    let processes = ["self".to_owned(), "1".to_owned(), brief.host.to_string()];
    let roots = processes.map(|process| Path::new("/proc").join(process).join("root").join(below));
    let paths = std::iter::once(brief.hidden.clone()).chain(roots);
    Outcome::by_any(paths.map(|path| (format!("`{}` was read", path.display()), fs::read(&path).map(drop))))
}

pub(super) fn change_hidden(brief: &Brief) -> Outcome {
    let directory = brief.hidden.parent().unwrap_or(&brief.hidden);
    Outcome::by_any([
        ("it was written to", append(&brief.hidden)),
        ("a file was put beside it", fs::write(directory.join(fixture::MADE), "escaped")),
        ("its directory was moved", fs::rename(directory, brief.workspace.join("moved"))),
    ])
}

/// Changes the file, replaces it, and moves its directory.
pub(super) fn change_fixed(brief: &Brief) -> Outcome {
    let other = brief.workspace.join("other");
    let replaced = fs::write(&other, "escaped").and_then(|()| fs::rename(&other, &brief.fixed));
    let directory = brief.fixed.parent().unwrap_or(&brief.fixed);
    Outcome::by_any([
        ("it was written to", append(&brief.fixed)),
        ("it was replaced", replaced),
        ("its directory was moved", fs::rename(directory, brief.workspace.join("moved-too"))),
    ])
}

/// Opens a disk, which contains every file.
pub(super) fn disk(brief: &Brief) -> Outcome {
    let made = brief.workspace.join("disk");
    let node = first_disk().map(|device| {
        let made = mknodat(CWD, &made, FileType::BlockDevice, Mode::RUSR, device);
        ("a device file was made".to_owned(), made.map_err(Into::into))
    });
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten().take(MAX_DEVICES);
    let devices = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_block_device()));
    let opened =
        devices.map(|entry| (format!("`{}` was opened", entry.path().display()), open(&entry.path())));
    Outcome::by_any(node.into_iter().chain(opened))
}

/// Opens a device without waiting for a medium.
fn open(device: &Path) -> io::Result<()> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(device).map(drop)
}

/// Returns the device number of a disk of this machine.
fn first_disk() -> Option<u64> {
    let mut disks = fs::read_dir("/sys/class/block").ok()?.flatten().take(MAX_DEVICES);
    disks.find_map(|disk| number(&disk.path()))
}

fn number(disk: &Path) -> Option<u64> {
    let text = fs::read_to_string(disk.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Sets the bit on an existing file, and creates a file with it.
pub(super) fn set_user_id(brief: &Brief) -> Outcome {
    let [changed, made] = fixture::SET_USER_ID.map(|name| brief.workspace.join(name));
    let changed = fs::write(&changed, "")
        .and_then(|()| fs::set_permissions(&changed, Permissions::from_mode(SET_USER_ID)));
    Outcome::by_any([("a file's mode was changed so", changed), ("a file was made so", make_with_mode(made))])
}

fn make_with_mode(path: PathBuf) -> io::Result<()> {
    File::options().write(true).create_new(true).mode(SET_USER_ID).open(path).map(drop)
}

fn append(path: &Path) -> io::Result<()> {
    File::options().append(true).open(path)?.write_all(b"escaped")
}
