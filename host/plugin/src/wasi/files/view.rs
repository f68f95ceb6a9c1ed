//! A guest's view of the file system, over the parts of its store that file operations need.

use std::fs::File;
use std::sync::Arc;

use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, Dir, File as WasiFile, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{self, ErrorCode, Filesize, PathFlags};
use wasmtime_wasi::p2::{DynOutputStream, FsResult};
use wasmtime_wasi::p3::bindings::filesystem as later;
use wasmtime_wasi::{FsPerms, OpenMode};

use super::private::{PrivateDirectories, PrivateDisks, PrivateHandles};
use super::protected::ProtectedPaths;
use super::relative::RelativePaths;
use super::resolve::{self, Bounds, Links};
use crate::call::ActiveCall;
use crate::denials::denied_access::DeniedAccess;
use crate::threads::writable::Writable;
use crate::wasi::capability::{Capability, HasCapability, NewGuest, View};
use crate::wasi::disk_budget::Disk;
use haft_core::grant::{Grant, Reach};
use haft_core::limit::Limits;
use haft_core::tool::inline;
use haft_core::undo::Changes;
use haft_state::Kept;

/// The type under which wasmtime finds [`Files`] in a store.
pub(crate) struct HasFiles;

/// A guest's view of the file system.
pub(crate) struct Files<'a> {
    pub(crate) inner: WasiFilesystemCtxView<'a>,
    pub(super) grant: &'a Grant,
    pub(super) protected_paths: &'a ProtectedPaths,
    /// What the call may write; nothing while there is no call.
    pub(super) writable: Option<&'a Writable>,
    pub(super) denied: &'a mut DeniedAccess,
    pub(super) relative: &'a mut RelativePaths,
    pub(super) disk: &'a Arc<Disk>,
    pub(super) private_disks: &'a PrivateDisks,
    pub(super) private_handles: &'a mut PrivateHandles,
    /// The private directory that this works in.
    pub(super) inside: Option<Kept>,
    pub(super) leads_elsewhere: &'a mut bool,
    /// Keeps what is changed.
    changes: &'a Changes,
    /// As many as there are streams of WASI 0.3 from and into files, and one.
    pub(crate) open_streams: &'a Arc<()>,
}

impl HasData for HasFiles {
    type Data<'a> = Files<'a>;
}

/// What a guest has for its files.
pub(crate) struct FileState {
    protected_paths: Arc<ProtectedPaths>,
    pub(crate) disk: Arc<Disk>,
    /// The directories of its own, opened for the call.
    pub(crate) private: PrivateDirectories,
    relative: RelativePaths,
    /// As many as there are streams of WASI 0.3 from and into files, and one.
    open_streams: Arc<()>,
    /// Whether the guest left the thread that read its call for a path to another file system.
    pub(crate) leads_elsewhere: bool,
}

impl Capability for FileState {
    fn new(guest: &NewGuest<'_>) -> Self {
        Self {
            protected_paths: guest.protected_paths.clone(),
            disk: Arc::new(Disk::new(guest.call.limits.disk)),
            private: PrivateDirectories::default(),
            relative: RelativePaths::new(guest.can_ask),
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
        self.private.begin(private, &self.disk, &call.goes_on());
        self.relative.set_named(call.paths.clone());
    }

    fn renew(&mut self, limits: &Limits) {
        self.private.end();
        self.disk.renew(limits.disk);
    }
}

/// The view of one store.
fn files(View { shared, own }: View<'_, FileState>) -> Files<'_> {
    if shared.is_location_known {
        own.relative.set_location_known();
    }
    Files {
        inner: WasiFilesystemCtxView { ctx: shared.wasi.filesystem(), table: &mut shared.table },
        grant: &shared.call.grant,
        protected_paths: &own.protected_paths,
        writable: shared.call.writable.as_ref(),
        denied: &mut shared.denied,
        relative: &mut own.relative,
        disk: &own.disk,
        private_disks: &own.private.disks,
        private_handles: &mut own.private.handles,
        inside: None,
        leads_elsewhere: &mut own.leads_elsewhere,
        changes: &shared.call.changes,
        open_streams: &own.open_streams,
    }
}

impl Files<'_> {
    /// Has the guest leave the thread that read its call where `path` leads to another file system, which may be slow or
    /// gone.
    pub(super) async fn stay_or_leave(&mut self, directory: &Dir, path: &str) {
        if inline::is_enabled() && resolve::leads_elsewhere(directory, path) {
            *self.leads_elsewhere = true;
            inline::leave().await;
        }
    }

    /// A second handle of the directory `fd` stands for.
    pub(super) fn directory(&self, fd: &Resource<Descriptor>) -> FsResult<Dir> {
        match self.inner.table.get(fd)? {
            Descriptor::Dir(directory) => Ok(directory.clone()),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// The open file that `fd` stands for.
    pub(super) fn file(&self, fd: &Resource<Descriptor>) -> FsResult<Arc<File>> {
        match self.inner.table.get(fd)? {
            Descriptor::File(file) => Ok(file.file.clone()),
            Descriptor::Dir(_) => Err(ErrorCode::BadDescriptor.into()),
        }
    }

    /// `stream`, which writes to `file`, with what it writes counted.
    pub(super) fn counted(
        &mut self,
        stream: Resource<DynOutputStream>,
        file: &Arc<File>,
        at: Option<Filesize>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let stream = self.inner.table.delete(stream)?;
        Ok(self.inner.table.push(self.disk.counted(stream, file, at))?)
    }

    /// Where what is changed here is kept; nowhere what is the guest's own.
    pub(super) fn changes(&self) -> Option<&Changes> {
        Some(self.changes).filter(|_| self.inside.is_none())
    }

    /// How far resolving a path may lead.
    pub(super) fn bounds(&self) -> Bounds {
        let is_anywhere = self.inside.is_none() && self.grant.readable() == Reach::Anywhere;
        if is_anywhere { Bounds::Anywhere } else { Bounds::Beneath }
    }

    /// A descriptor of a resolved object that allows metadata queries and nothing else.
    pub(super) fn push_metadata_handle(&mut self, seen: File) -> FsResult<Resource<Descriptor>> {
        let descriptor = Descriptor::File(WasiFile::new(seen, FsPerms::ReadOnly, OpenMode::empty(), true));
        Ok(self.inner.table.push(descriptor)?)
    }
}

/// What becomes of a link at the end of a path.
pub(super) fn links(flags: PathFlags) -> Links {
    if flags.contains(PathFlags::SYMLINK_FOLLOW) { Links::Follow } else { Links::Keep }
}
