//! The directories of a guest's own (`/state`, `/cache`). They lie among haft's own files, which are closed to all others:
//! what is opened below one of their handles is open to this guest, and the kernel keeps it below. What is written there
//! counts against the directory's quota too; nothing is moved or linked across its border, since that would not.

use std::sync::LazyLock;

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::{FsPerms, OpenMode};

use super::protected::ProtectedPaths;
use super::view::Files;
use crate::storage;

/// Nothing in a private directory is haft's own.
static NOTHING_PROTECTED: LazyLock<ProtectedPaths> = LazyLock::new(ProtectedPaths::default);

impl Files<'_> {
    /// The private directories, opened, by their names in the guest.
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
                    self.private_handles.add(descriptor.rep(), private.kept);
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
        let Some(kept) = self.private_handles.get(fd.rep()) else { return };
        self.inside = Some(kept);
        self.protected_paths = &NOTHING_PROTECTED;
        if let Some(disk) = self.private_disks.get(kept) {
            self.disk = disk;
        }
    }

    /// The same for two, which must not be on two sides of a border. Programs copy the file then.
    pub(super) fn enter_both(
        &mut self,
        from: &Resource<Descriptor>,
        to: &Resource<Descriptor>,
    ) -> FsResult<()> {
        if self.private_handles.get(from.rep()) != self.private_handles.get(to.rep()) {
            return Err(ErrorCode::CrossDevice.into());
        }
        self.enter(from);
        Ok(())
    }

    /// Keeps what was opened from where this works.
    pub(super) fn push(&mut self, opened: Descriptor) -> FsResult<Resource<Descriptor>> {
        let descriptor = self.inner.table.push(opened)?;
        if let Some(kept) = self.inside {
            self.private_handles.add(descriptor.rep(), kept);
        }
        Ok(descriptor)
    }
}
