//! Opens files and directories for a guest: a path is resolved, the object is checked, and only then is that very
//! object opened or truncated, or a new file created. Nothing is changed before the check.

use std::fs::File;
use std::io;

use rustix::fs::{FileType, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File as WasiFile};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorFlags, ErrorCode, OpenFlags};
use wasmtime_wasi::{FsPerms, OpenMode};

use super::entries::Entry;
use super::resolve::PRIVATE;
use crate::denials::denied_access::{AccessKind, Protection};
use crate::wasi::files::protected::ProtectionCheck;
use crate::wasi::files::resolve::{self, Bounds, Links, Object, resolve_path};
use crate::wasi::files::view::Files;

/// Maximum number of resolutions of a path: one for every link to a missing file, and for every change of the path
/// by another process. The kernel follows as many links.
const MAX_ATTEMPTS: usize = 40;

/// The mode of a new file, before the user's umask.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);

/// The arguments of an `open-at`.
#[derive(Clone, Copy)]
pub(super) struct OpenRequest {
    open: OpenFlags,
    flags: DescriptorFlags,
}

/// The mode of a file that will replace another file, until the rename copies the mode of the replaced file.
const PRIVATE_FILE: Mode = Mode::from_raw_mode(0o600);

enum CreateOutcome {
    File(File),
    /// Another process has created the file meanwhile.
    Exists,
    /// The name is a link to this path, which does not exist.
    Link(String),
}

impl OpenRequest {
    /// Checks the requested flags. Refuses the combinations that wasmtime-wasi refuses.
    pub(super) fn new(open: OpenFlags, flags: DescriptorFlags) -> Result<Self, ErrorCode> {
        let synchronous = DescriptorFlags::FILE_INTEGRITY_SYNC
            | DescriptorFlags::DATA_INTEGRITY_SYNC
            | DescriptorFlags::REQUESTED_WRITE_SYNC;
        if flags.intersects(synchronous) {
            return Err(ErrorCode::Unsupported);
        }
        let files_only = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::TRUNCATE;
        if open.contains(OpenFlags::DIRECTORY) && open.intersects(files_only) {
            return Err(ErrorCode::Invalid);
        }
        Ok(Self { open, flags })
    }

    pub(super) fn changes(self) -> bool {
        let changes = OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::EXCLUSIVE;
        self.open.intersects(changes)
            || self.flags.intersects(DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY)
    }

    fn reads(self) -> bool {
        self.flags.contains(DescriptorFlags::READ) || !self.flags.contains(DescriptorFlags::WRITE)
    }

    fn writes(self) -> bool {
        self.open.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE)
            || self.flags.contains(DescriptorFlags::WRITE)
    }

    fn creates(self) -> bool {
        self.open.contains(OpenFlags::CREATE)
    }

    fn only_new(self) -> bool {
        self.creates() && self.open.contains(OpenFlags::EXCLUSIVE)
    }

    fn mode(self) -> OpenMode {
        let reads = if self.reads() { OpenMode::READ } else { OpenMode::empty() };
        let writes = if self.writes() { OpenMode::WRITE } else { OpenMode::empty() };
        reads | writes
    }

    fn access(self) -> OFlags {
        match (self.reads(), self.writes()) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            (_, false) => OFlags::RDONLY,
        }
    }

    fn of_object(self) -> OFlags {
        let truncates = self.open.contains(OpenFlags::TRUNCATE);
        if truncates { self.access() | OFlags::TRUNC } else { self.access() }
    }
}

impl Files<'_> {
    pub(super) fn open(
        &mut self,
        directory: &Dir,
        path: &str,
        links: Links,
        request: OpenRequest,
    ) -> FsResult<Descriptor> {
        // A file that was reached by a path with unrestricted links can only be read.
        let (bounds, permissions) = match self.bounds() {
            Bounds::Anywhere if !request.changes() => (Bounds::Anywhere, FsPerms::ReadOnly),
            _ => (Bounds::Beneath, directory.perms),
        };
        if request.writes() && permissions.write_not_permitted() {
            return Err(ErrorCode::NotPermitted.into());
        }
        let mut path = path.to_owned();
        for _ in 0..MAX_ATTEMPTS {
            match resolve_path(directory, &path, links, bounds) {
                Ok(object) => {
                    if let Some(opened) = self.open_object(&object, permissions, request)? {
                        return Ok(opened);
                    }
                }
                Err(error) if request.creates() && has_code(&error, ErrorCode::NoEntry) => {
                    match self.create_file(directory, &path, links, request)? {
                        CreateOutcome::File(file) => {
                            return Ok(descriptor(file, false, permissions, request));
                        }
                        CreateOutcome::Exists => {}
                        CreateOutcome::Link(target) => path = target,
                    }
                }
                Err(error) => return Err(self.missing_path_error(directory, &path, bounds, error)),
            }
        }
        Err(ErrorCode::Loop.into())
    }

    /// Opens a resolved object; `None` when it has been moved or removed meanwhile.
    fn open_object(
        &mut self,
        object: &Object,
        permissions: FsPerms,
        request: OpenRequest,
    ) -> FsResult<Option<Descriptor>> {
        let what_for = if request.writes() { AccessKind::Write } else { AccessKind::Read };
        let permissions = match self.protected_paths.check(object).map_err(resolve::error)? {
            ProtectionCheck::Gone => return Ok(None),
            ProtectionCheck::Protected(protection)
                if protection.level == Protection::Hidden || request.writes() =>
            {
                return Err(self.refuse(protection.level, resolve::real_path(&object.file), what_for));
            }
            ProtectionCheck::Protected(_) => FsPerms::ReadOnly,
            ProtectionCheck::Free => permissions,
        };
        if request.only_new() {
            return Err(ErrorCode::Exist.into());
        }
        if request.writes()
            && object.kind() == FileType::RegularFile
            && let Some(changes) = self.changes()
        {
            let open = || object.open(OFlags::RDONLY).map_err(|_| io::ErrorKind::PermissionDenied.into());
            changes.before_open(resolve::real_path(&object.file), open);
        }
        let file = object.open(request.of_object())?;
        let is_directory = object.kind() == FileType::Directory;
        if !is_directory && request.open.contains(OpenFlags::DIRECTORY) {
            return Err(ErrorCode::NotDirectory.into());
        }
        Ok(Some(descriptor(file, is_directory, permissions, request)))
    }

    fn create_file(
        &mut self,
        directory: &Dir,
        path: &str,
        links: Links,
        request: OpenRequest,
    ) -> FsResult<CreateOutcome> {
        let entry = self.entry(directory, path)?;
        if entry.must_be_directory {
            return Err(ErrorCode::IsDirectory.into());
        }
        let how = request.access() | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let is_private = request.only_new() && entry.name.starts_with(PRIVATE);
        let mode = if is_private { PRIVATE_FILE } else { NEW_FILE };
        match self.disk.charge_entry(|| openat(&entry.directory, &*entry.name, how, mode)) {
            Ok(file) => Ok(CreateOutcome::File(file.into())),
            Err(Errno::EXIST) if request.only_new() => Err(ErrorCode::Exist.into()),
            Err(Errno::EXIST) => match (links, target(&entry)) {
                (Links::Follow, Some(target)) => Ok(CreateOutcome::Link(beside(path, &target))),
                _ => Ok(CreateOutcome::Exists),
            },
            Err(errno) => Err(resolve::error(errno.into())),
        }
    }
}

fn target(entry: &Entry) -> Option<String> {
    readlinkat(&entry.directory, &*entry.name, Vec::new()).ok()?.into_string().ok()
}

/// Returns the path of the target of the link at `path`. The kernel refuses a target outside of the directory.
fn beside(path: &str, target: &str) -> String {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some((parent, _)) if !target.starts_with('/') => format!("{parent}/{target}"),
        _ => target.to_owned(),
    }
}

fn descriptor(file: File, is_directory: bool, permissions: FsPerms, request: OpenRequest) -> Descriptor {
    if is_directory {
        Descriptor::Dir(Dir::new(file, permissions, request.mode(), true))
    } else {
        Descriptor::File(WasiFile::new(file, permissions, request.mode(), true))
    }
}

pub(super) fn has_code(error: &wasmtime_wasi::p2::FsError, code: ErrorCode) -> bool {
    error.downcast_ref().is_some_and(|found| *found == code)
}
