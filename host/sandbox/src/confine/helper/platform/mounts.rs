//! The child's view of the file system: everything read-only except the writable paths, hidden paths covered,
//! and new devices and a new process table. Follows no link on the way to a path that it changes: a tool may
//! have created the link.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, open_tree,
};

use crate::confine::egress::secrets::GIVEN;
use crate::confine::policy::Policy;
use crate::confine::sys::platform as sys;

/// Devices that programs rely on, and that give no access to this machine.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
/// Bytes for the entries of `/dev` itself.
const DEVICE_SPACE: usize = 64 << 10;
/// Bytes of a page, the unit of a file's size in memory; pages may be larger.
const PAGE: usize = 64 << 10;
/// Size limit of shared memory.
const SHARED_MEMORY: &str = "1g";
/// Limit on the processes and threads, beyond the kernel's reserved ids (300).
const PROCESS_NUMBERS: &[u8] = b"812";

/// Creates the view. Must be called by the first process of new mount and process namespaces.
pub(super) fn arrange(policy: &Policy) -> Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("cannot detach the mounts from the host's")?;
    // One for each cover that contains the child's private directory, copied while it is writable.
    let own = |hidden: &PathBuf| policy.private.as_deref().filter(|own| own.starts_with(hidden));
    let opened = policy.hidden.iter().map(|hidden| own(hidden).map_or(Ok(None), Copy::of));
    let opened: Vec<_> = opened.collect::<Result<_>>()?;
    let writable = match &policy.write {
        Some(roots) => {
            // Copied while the mounts are writable, and mounted again after everything else is read-only.
            let copies = roots.iter().filter_map(|root| Copy::of(root).transpose());
            let copies: Vec<_> = copies.collect::<Result<_>>()?;
            let whole = open("/".as_ref())?.context("there is no `/`")?;
            sys::set_read_only(whole.as_fd(), true, true).context("cannot make `/` read-only")?;
            copies
        }
        None => Vec::new(),
    };
    writable.into_iter().try_for_each(Copy::put)?;
    processes(!policy.hosts.is_empty())?;
    let covers = devices(&policy.files)?;
    pin(policy)?;
    for (path, opened) in policy.hidden.iter().zip(opened) {
        match opened.zip(own(path)) {
            Some((copy, own)) => open_in_cover(path, &copy, own)?,
            None => covers.hide(path)?,
        }
    }
    policy.fixed.iter().filter(|path| policy.may_write(path)).try_for_each(|path| fix(path))?;
    covers.finish()
}

/// A detached copy of a mount, and its original place.
struct Copy {
    mount: OwnedFd,
    place: OwnedFd,
}

impl Copy {
    /// Copies the mount of a path; `None` if the path does not exist.
    fn of(path: &Path) -> Result<Option<Self>> {
        let Some(place) = open(path)? else { return Ok(None) };
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE;
        let mount = open_tree(&place, "", flags);
        let mount = mount.with_context(|| format!("cannot copy the mount of `{}`", path.display()))?;
        Ok(Some(Self { mount, place }))
    }

    /// Mounts the copy over its original place.
    fn put(self) -> Result<()> {
        put(&self.mount, &self.place)
    }
}

fn put(mount: &OwnedFd, place: &OwnedFd) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", place, "", flags).context("cannot mount")
}

/// Opens a path without links; `None` if it does not exist.
fn open(path: &Path) -> Result<Option<OwnedFd>> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Ok(place) => Ok(Some(place)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot open `{}`", path.display())),
    }
}

/// Mounts a new process table. In a container parts of `/proc` may be covered, in which case the kernel refuses
/// a new one. The old one shows other processes, but gives no access to them, and has other numbers than the
/// watcher knows, with which it would not find the sockets of a command: then a new one `is_needed`.
fn processes(is_needed: bool) -> Result<()> {
    let mount = match new("proc", &[], MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV) {
        Ok(mount) => mount,
        Err(Errno::PERM) => {
            ensure!(
                !is_needed,
                "single hosts (`hosts`) need a process table of their own; parts of `/proc` are covered here"
            );
            return Ok(());
        }
        Err(error) => return Err(error).context("cannot make a process table"),
    };
    let place = open("/proc".as_ref())?.context("there is no `/proc`")?;
    put(&mount, &place)?;
    // Kernels before 6.14 have one limit for the whole machine, which must not change here: they refuse the
    // write, since the limit is outside this namespace.
    if let Ok(limit) = rustix::fs::openat(&mount, "sys/kernel/pid_max", OFlags::WRONLY, Mode::empty()) {
        let _ = rustix::io::write(limit, PROCESS_NUMBERS);
    }
    sys::set_read_only(mount.as_fd(), true, false).context("cannot make the process table read-only")
}

/// Creates a file system that is not mounted yet.
fn new(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> rustix::io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(&context, *name, *value)?;
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Creates a `/dev` with the devices that programs rely on: no disk, terminal or service of this machine. `given` are
/// files for the child, by their names.
fn devices(given: &[(String, String)]) -> Result<Covers> {
    let devices: Vec<_> = DEVICES
        .iter()
        .filter_map(|name| Some((*name, Copy::of(&Path::new("/dev").join(name)).transpose()?)))
        .map(|(name, copy)| Ok((name, copy?)))
        .collect::<Result<_>>()?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let pages = given.iter().map(|(_, text)| text.len() / PAGE + 1).sum::<usize>();
    let size = (DEVICE_SPACE + pages * PAGE).to_string();
    let root = new("tmpfs", &[("mode", "755"), ("size", &size)], attributes).context("cannot make `/dev`")?;
    let place = open("/dev".as_ref())?.context("there is no `/dev`")?;
    put(&root, &place)?;
    for (name, copy) in devices {
        let file = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&root, name, file, Mode::empty()).context("cannot make a device's place")?;
        put(&copy.mount, &below(&root, name)?)?;
    }
    own_file_systems(&root)?;
    let links = [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ];
    for (name, target) in links {
        rustix::fs::symlinkat(target, &root, name).context("cannot make a link in `/dev`")?;
    }
    give(&root, given).context("cannot make the files for the child")?;
    Covers::new(root)
}

/// Writes files into [`GIVEN`]. They become read-only with `/dev`.
fn give(root: &OwnedFd, files: &[(String, String)]) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let name = Path::new(GIVEN).file_name().context("no directory")?;
    rustix::fs::mkdirat(root, name, Mode::from_raw_mode(0o755))?;
    let directory = below(root, name)?;
    for (name, text) in files {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, name.as_str(), flags, Mode::from_raw_mode(0o444))?;
        File::from(file).write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Mounts pseudo-terminals and shared memory.
fn own_file_systems(root: &OwnedFd) -> Result<()> {
    let plain = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let terminals: &[(&str, &str)] = &[("ptmxmode", "666"), ("mode", "620")];
    let memory: &[(&str, &str)] = &[("mode", "1777"), ("size", SHARED_MEMORY)];
    let kinds = [
        ("pts", "devpts", terminals, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC),
        ("shm", "tmpfs", memory, plain),
    ];
    for (name, kind, options, attributes) in kinds {
        let failed = || format!("cannot make `/dev/{name}`");
        rustix::fs::mkdirat(root, name, Mode::from_raw_mode(0o755)).with_context(failed)?;
        let mount = new(kind, options, attributes).with_context(failed)?;
        put(&mount, &below(root, name)?)?;
    }
    Ok(())
}

fn below(root: &OwnedFd, name: impl AsRef<OsStr>) -> Result<OwnedFd> {
    let name = name.as_ref();
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(root, name, flags, Mode::empty())
        .with_context(|| format!("cannot open `{}`", name.display()))
}

/// The covers of hidden paths: an empty directory and an empty file without permissions. They exist in `/dev`
/// only while the mounts are created.
struct Covers {
    devices: OwnedFd,
}

const COVER_DIRECTORY: &str = ".directory";
const COVER_FILE: &str = ".file";

impl Covers {
    fn new(devices: OwnedFd) -> Result<Self> {
        rustix::fs::mkdirat(&devices, COVER_DIRECTORY, Mode::empty()).context("cannot make a cover")?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&devices, COVER_FILE, flags, Mode::empty()).context("cannot make a cover")?;
        Ok(Self { devices })
    }

    fn hide(&self, path: &Path) -> Result<()> {
        let Some(place) = open(path)? else { return Ok(()) };
        let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
        let cover = if kind == rustix::fs::FileType::Directory { COVER_DIRECTORY } else { COVER_FILE };
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let mount = open_tree(&self.devices, cover, flags).context("cannot copy a cover")?;
        sys::set_read_only(mount.as_fd(), true, false).context("cannot make a cover read-only")?;
        put(&mount, &place).with_context(|| format!("cannot cover `{}`", path.display()))
    }

    fn finish(self) -> Result<()> {
        let failed = "cannot put the covers away";
        rustix::fs::unlinkat(&self.devices, COVER_DIRECTORY, AtFlags::REMOVEDIR).context(failed)?;
        rustix::fs::unlinkat(&self.devices, COVER_FILE, AtFlags::empty()).context(failed)?;
        sys::set_read_only(self.devices.as_fd(), true, false).context("cannot make `/dev` read-only")
    }
}

/// Covers `path` except `own`, a directory in it, of which `copy` is a copy.
fn open_in_cover(path: &Path, copy: &Copy, own: &Path) -> Result<()> {
    let failed = || format!("cannot cover `{}`", path.display());
    let Some(place) = open(path)? else { return Ok(()) };
    let plain = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let cover = new("tmpfs", &[("mode", "111"), ("size", "64k")], plain).with_context(failed)?;
    put(&cover, &place).with_context(failed)?;
    let mut directory = rustix::io::fcntl_dupfd_cloexec(&cover, 3)?;
    for part in own.strip_prefix(path)?.components() {
        rustix::fs::mkdirat(&directory, part.as_os_str(), Mode::from_raw_mode(0o111)).with_context(failed)?;
        directory = below(&directory, part.as_os_str())?;
    }
    put(&copy.mount, &directory).with_context(failed)?;
    sys::set_read_only(cover.as_fd(), true, false).with_context(failed)
}

/// Mounts a file or directory over itself, read-only.
fn fix(path: &Path) -> Result<()> {
    let Some(copy) = Copy::of(path)? else { return Ok(()) };
    sys::set_read_only(copy.mount.as_fd(), true, true).context("cannot make a copy read-only")?;
    copy.put().with_context(|| format!("cannot fix `{}`", path.display()))
}

/// Bind-mounts on itself every directory between a writable one and a hidden or fixed path in it: a mount point
/// cannot be renamed, so that no other directory can take its place. Each directory once, from the outside in:
/// a recursive bind mount copies inner mounts, so copies of copies would double them.
fn pin(policy: &Policy) -> Result<()> {
    let sealed = policy.hidden.iter().chain(&policy.fixed);
    let between: BTreeSet<&Path> = sealed.flat_map(|path| between(policy, path)).collect();
    for directory in between {
        if let Some(copy) = Copy::of(directory)? {
            copy.put().with_context(|| format!("cannot pin `{}`", directory.display()))?;
        }
    }
    Ok(())
}

/// Returns the parents of `path` below its writable directory: none of the writable directory itself.
fn between<'a>(policy: &'a Policy, path: &'a Path) -> impl Iterator<Item = &'a Path> {
    let root = policy.write_root(path);
    let above = path.ancestors().skip(1);
    above.take_while(move |directory| {
        root.is_some_and(|root| *directory != root && directory.starts_with(root))
    })
}
