//! A guest's view of the file system, over the parts of its store that file operations need.

use std::fs::File;
use std::sync::{Arc, LazyLock};

use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, Dir, File as WasiFile, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{self, ErrorCode, Filesize, PathFlags};
use wasmtime_wasi::p2::{DynOutputStream, FsResult};
use wasmtime_wasi::p3::bindings::filesystem as later;
use wasmtime_wasi::{FsPerms, OpenMode};

use super::protected::ProtectedPaths;
use super::relative::{self, HandedDirectory, RelativePaths};
use super::resolve::{self, Bounds, Links, Object};
use crate::call::ActiveCall;
use crate::denials::denied_access::{DeniedAccess, Protection};
use crate::storage::{self, PrivateDirectory};
use crate::threads::writable::Writable;
use crate::wasi::capability::{Capability, HasCapability, NewGuest, View};
use crate::wasi::disk_budget::Disk;
use haft_core::grant::{Grant, Preopen, Reach, RightsTable};
use haft_core::limit::Limits;
use haft_core::tool::inline;
use haft_core::undo::Changes;
use haft_state::Kept;

/// The type under which wasmtime finds [`Files`] in a store.
pub(crate) struct HasFiles;

pub(crate) struct Files<'a> {
    pub(crate) inner: WasiFilesystemCtxView<'a>,
    pub(super) grant: &'a Grant,
    pub(super) protected_paths: &'a ProtectedPaths,
    /// The directories that the call may write; `None` without a call.
    pub(super) writable: Option<&'a Writable>,
    pub(super) denied: &'a mut DeniedAccess,
    pub(super) relative: RelativePaths<'a>,
    handles: &'a mut Vec<(u32, HandedDirectory)>,
    pub(super) disk: &'a Arc<Disk>,
    private_disks: &'a [(Kept, Arc<Disk>)],
    /// The private directory that this works in.
    pub(super) inside: Option<Kept>,
    pub(super) leads_elsewhere: &'a mut bool,
    changes: &'a Changes,
    /// A token whose reference count is the number of WASI 0.3 file streams plus one.
    pub(crate) open_streams: &'a Arc<()>,
}

impl HasData for HasFiles {
    type Data<'a> = Files<'a>;
}

pub(crate) struct FileState {
    protected_paths: Arc<ProtectedPaths>,
    pub(crate) disk: Arc<Disk>,
    /// The remaining quota of each private directory (`/state`, `/cache`) in the call.
    private_disks: Vec<(Kept, Arc<Disk>)>,
    /// Whether the guest can ask haft for its workspace.
    can_ask: bool,
    handles: Vec<(u32, HandedDirectory)>,
    /// A token whose reference count is the number of WASI 0.3 file streams plus one.
    open_streams: Arc<()>,
    /// Whether the guest left the thread that read its call for a path to another file system.
    pub(crate) leads_elsewhere: bool,
}

impl Capability for FileState {
    fn new(guest: &NewGuest<'_>) -> Self {
        Self {
            protected_paths: guest.protected_paths.clone(),
            disk: Arc::new(Disk::new(guest.call.limits.disk)),
            private_disks: Vec::new(),
            can_ask: guest.can_ask,
            handles: Vec::new(),
            open_streams: Arc::default(),
            leads_elsewhere: false,
        }
    }

    fn link<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        types::add_to_linker::<S, HasFiles>(linker, |store| files(store.view()))?;
        preopens::add_to_linker::<S, HasFiles>(linker, |store| files(store.view()))
    }

    fn link_later<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        later::types::add_to_linker::<S, HasFiles>(linker, |store| files(store.view()))?;
        later::preopens::add_to_linker::<S, HasFiles>(linker, |store| files(store.view()))
    }

    fn begin(&mut self, call: &ActiveCall) {
        let private = call.writable.as_ref().map(Writable::private).unwrap_or_default();
        let goes_on = call.goes_on();
        let disk = |one: &PrivateDirectory| {
            (one.kept, Arc::new(Disk::private(self.disk.clone(), one.quota.clone(), goes_on.clone())))
        };
        self.private_disks = private.iter().map(disk).collect();
    }

    fn renew(&mut self, limits: &Limits) {
        self.private_disks.clear();
        self.disk.renew(limits.disk);
    }
}

impl FileState {
    /// Returns whether a write was refused for the quota of this private directory.
    pub(crate) fn is_full(&self, kept: Kept) -> bool {
        self.private_disks.iter().any(|(own, disk)| *own == kept && disk.is_exceeded())
    }
}

fn files(View { shared, own }: View<'_, FileState>) -> Files<'_> {
    Files {
        inner: WasiFilesystemCtxView { ctx: shared.wasi.filesystem(), table: &mut shared.table },
        grant: &shared.call.grant,
        protected_paths: &own.protected_paths,
        writable: shared.call.writable.as_ref(),
        denied: &mut shared.denied,
        relative: RelativePaths {
            can_ask: own.can_ask,
            is_location_known: shared.is_location_known,
            named: &shared.call.paths,
        },
        handles: &mut own.handles,
        disk: &own.disk,
        private_disks: &own.private_disks,
        inside: None,
        leads_elsewhere: &mut own.leads_elsewhere,
        changes: &shared.call.changes,
        open_streams: &own.open_streams,
    }
}

impl Files<'_> {
    /// Moves the guest off the reading thread if `path` leads to another file system, which may be slow or unavailable.
    pub(super) async fn stay_or_leave(&mut self, directory: &Dir, path: &str) {
        if inline::is_enabled() && resolve::leads_elsewhere(&directory.dir, path) {
            *self.leads_elsewhere = true;
            inline::leave().await;
        }
    }

    /// Returns the directory of a descriptor, if it was preopened or is below a private one.
    pub(super) fn handed(&self, fd: &Resource<Descriptor>) -> Option<&HandedDirectory> {
        self.handles.iter().find(|(handle, _)| *handle == fd.rep()).map(|(_, handed)| handed)
    }

    pub(super) fn forget(&mut self, fd: &Resource<Descriptor>) {
        self.handles.retain(|(handle, _)| *handle != fd.rep());
    }

    pub(super) fn directory(&self, fd: &Resource<Descriptor>) -> FsResult<Dir> {
        match self.inner.table.get(fd)? {
            Descriptor::Dir(directory) => Ok(directory.clone()),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    pub(super) fn file(&self, fd: &Resource<Descriptor>) -> FsResult<Arc<File>> {
        match self.inner.table.get(fd)? {
            Descriptor::File(file) => Ok(file.file.clone()),
            Descriptor::Dir(_) => Err(ErrorCode::BadDescriptor.into()),
        }
    }

    /// Returns `stream`, which writes to `file`, with its writes charged.
    pub(super) fn counted(
        &mut self,
        stream: Resource<DynOutputStream>,
        file: &Arc<File>,
        at: Option<Filesize>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let stream = self.inner.table.delete(stream)?;
        Ok(self.inner.table.push(self.disk.counted(stream, file, at))?)
    }

    /// Returns the store of changes; `None` for the guest's private directories.
    pub(super) fn changes(&self) -> Option<&Changes> {
        Some(self.changes).filter(|_| self.inside.is_none())
    }

    pub(super) fn bounds(&self) -> Bounds {
        let is_anywhere = self.inside.is_none() && self.grant.readable() == Reach::Anywhere;
        if is_anywhere { Bounds::Anywhere } else { Bounds::Beneath }
    }

    /// Returns a descriptor of a resolved object that allows metadata queries and nothing else.
    pub(super) fn push_metadata_handle(&mut self, seen: File) -> FsResult<Resource<Descriptor>> {
        let descriptor = Descriptor::File(WasiFile::new(seen, FsPerms::ReadOnly, OpenMode::empty(), true));
        Ok(self.inner.table.push(descriptor)?)
    }
}

pub(super) fn links(flags: PathFlags) -> Links {
    if flags.contains(PathFlags::SYMLINK_FOLLOW) { Links::Follow } else { Links::Keep }
}

// A guest's private directories (`/state`, `/cache`). They are among haft's own files, which are closed to all other
// guests: objects below one of their handles are open to this guest, and the kernel prevents escapes. Writes also count
// against the directory's quota. Moves and links across its border are refused, because they would not count.

/// The protected paths of a private directory: none is haft's own.
static NOTHING_PROTECTED: LazyLock<ProtectedPaths> = LazyLock::new(ProtectedPaths::default);

impl Files<'_> {
    /// Returns the private directories, opened, by their names in the guest.
    pub(super) fn open_private(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let Some(writable) = self.writable else { return Ok(Vec::new()) };
        let mut opened = Vec::new();
        for private in writable.private() {
            let name = storage::name(private.kept);
            match writable.directory(&private.root) {
                Ok(directory) => {
                    let mode = OpenMode::READ | OpenMode::WRITE;
                    let directory = Descriptor::Dir(Dir::new(directory, FsPerms::ReadWrite, mode, true));
                    let descriptor = self.inner.table.push(directory)?;
                    self.handles.push((descriptor.rep(), HandedDirectory::Private(private.kept)));
                    opened.push((descriptor, name.to_owned()));
                }
                Err(problem) => self.denied.unopened(name, problem),
            }
        }
        for (name, problem) in writable.missing() {
            self.denied.unopened(name, problem.clone());
        }
        Ok(opened)
    }

    /// Works from `fd` on: below a private directory nothing is protected, and its quota counts.
    pub(super) fn enter(&mut self, fd: &Resource<Descriptor>) {
        let Some(kept) = self.private(fd) else { return };
        self.inside = Some(kept);
        self.protected_paths = &NOTHING_PROTECTED;
        if let Some((_, disk)) = self.private_disks.iter().find(|(own, _)| *own == kept) {
            self.disk = disk;
        }
    }

    fn private(&self, fd: &Resource<Descriptor>) -> Option<Kept> {
        match self.handed(fd) {
            Some(HandedDirectory::Private(kept)) => Some(*kept),
            _ => None,
        }
    }

    /// Enters two directories, which must not be on two sides of a border. Programs then copy the file.
    pub(super) fn enter_both(
        &mut self,
        from: &Resource<Descriptor>,
        to: &Resource<Descriptor>,
    ) -> FsResult<()> {
        if self.private(from) != self.private(to) {
            return Err(ErrorCode::CrossDevice.into());
        }
        self.enter(from);
        Ok(())
    }

    /// Records an object opened from a private directory.
    pub(super) fn push(&mut self, opened: Descriptor) -> FsResult<Resource<Descriptor>> {
        let descriptor = self.inner.table.push(opened)?;
        if let Some(kept) = self.inside {
            self.handles.push((descriptor.rep(), HandedDirectory::Private(kept)));
        }
        Ok(descriptor)
    }
}

impl preopens::Host for Files<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let preopens = self.grant.preopens();
        self.denied.open();
        let mut directories = Vec::with_capacity(preopens.len() + 1);
        if let Some((directory, is_workspace)) = self.relative_root(&preopens) {
            let descriptor = self.inner.table.push(Descriptor::Dir(directory))?;
            self.handles.push((descriptor.rep(), HandedDirectory::Root { is_workspace }));
            directories.push((descriptor, relative::NAME.to_owned()));
        }
        let stands_for_root = !directories.is_empty();
        for preopen in preopens.into_iter().filter(|one| !stands_for_root || one.name != relative::NAME) {
            match self.preopen(&preopen) {
                Ok(directory) => {
                    let descriptor = self.inner.table.push(Descriptor::Dir(directory))?;
                    self.handles.push((descriptor.rep(), HandedDirectory::Granted((&preopen.name).into())));
                    directories.push((descriptor, preopen.name));
                }
                Err(problem) => self.denied.unopened(&preopen.name, problem),
            }
        }
        directories.extend(self.open_private()?);
        Ok(directories)
    }
}

impl Files<'_> {
    pub(super) fn preopen(&self, preopen: &Preopen) -> Result<Dir, String> {
        let (directory, closed) = self.granted(preopen)?;
        let (permissions, mode) = rights(preopen.writable && closed.is_none());
        Ok(Dir::new(directory, permissions, mode, true))
    }

    fn granted(&self, preopen: &Preopen) -> Result<(File, Option<Protection>), String> {
        let Some(writable) = self.writable else {
            return Err("no call has begun".into());
        };
        let directory = if preopen.writable {
            writable.directory(&preopen.root)?
        } else {
            preopen.root.open().map_err(|error| error.to_string())?
        };
        let object = Object::from_file(directory).map_err(|error| error.to_string())?;
        match self.protected_paths.protection_of(&object).map_err(|error| error.to_string())? {
            Some(protection) if protection.level == Protection::Hidden => {
                let closed = self.grant.closed_at(preopen.root.real());
                let hint = closed.and_then(|closed| closed.hint(&RightsTable::Named("its grant".to_owned())));
                Err(hint.unwrap_or_else(|| "it belongs to haft".into()))
            }
            protection => Ok((object.file, protection.map(|protection| protection.level))),
        }
    }
}

fn rights(writable: bool) -> (FsPerms, OpenMode) {
    if writable {
        (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE)
    } else {
        (FsPerms::ReadOnly, OpenMode::READ)
    }
}
