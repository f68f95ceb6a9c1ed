//! A guest's view of the file system, over the parts of its store that file operations need.

use std::fs::File;
use std::sync::Arc;

use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::filesystem::{Descriptor, Dir, File as WasiFile, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::types::{ErrorCode, Filesize, PathFlags};
use wasmtime_wasi::p2::{DynOutputStream, FsResult};
use wasmtime_wasi::{FsPerms, OpenMode};

use super::private::{PrivateDisks, PrivateHandles};
use super::protected::ProtectedPaths;
use super::relative::RelativePaths;
use super::resolve::{Bounds, Links};
use crate::denials::denied_access::DeniedAccess;
use crate::instance::state::GuestState;
use crate::threads::writable::Writable;
use crate::wasi::disk_budget::Disk;
use haft_core::grant::{Grant, Reach};
use haft_core::undo::Changes;
use haft_state::Kept;

/// The type under which wasmtime finds [`Files`] in a store.
pub(crate) struct HasFiles;

/// A guest's view of the file system.
pub(crate) struct Files<'a> {
    pub(super) inner: WasiFilesystemCtxView<'a>,
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
    /// Keeps what is changed.
    changes: &'a Changes,
}

impl HasData for HasFiles {
    type Data<'a> = Files<'a>;
}

/// The view of one store.
pub(crate) fn guest_files(state: &mut GuestState) -> Files<'_> {
    let inner = WasiFilesystemCtxView { ctx: state.wasi.filesystem(), table: &mut state.table };
    let writable = state.writable.as_ref();
    let (denied, relative) = (&mut state.denied, &mut state.relative);
    Files {
        inner,
        grant: &state.grant,
        protected_paths: &state.protected_paths,
        writable,
        denied,
        relative,
        disk: &state.disk,
        private_disks: &state.private.disks,
        private_handles: &mut state.private.handles,
        inside: None,
        changes: &state.run.changes,
    }
}

impl Files<'_> {
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
