//! What is refused whatever the grant says, and a note of what was refused for want of one.
//! Decides by what is there, never by its name.

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorType, ErrorCode, HostDescriptor, PathFlags};

use super::super::wanted::Use;
use super::{Files, follow};

impl Files<'_> {
    /// Gives back what was opened, unless it shows haft itself.
    pub(super) fn refuse_processes(
        &mut self,
        opened: Resource<Descriptor>,
    ) -> FsResult<Resource<Descriptor>> {
        let file = match self.inner.table.get(&opened)? {
            Descriptor::File(file) => file.file.clone(),
            Descriptor::Dir(directory) => directory.dir.clone(),
        };
        if let Err(refusal) = follow::refuse_processes(&file) {
            self.inner.table.delete(opened)?;
            return Err(refusal);
        }
        Ok(opened)
    }

    /// Refuses what could be opened and never come back.
    pub(super) async fn refuse_devices(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<()> {
        match self.inner.stat_at(fd, flags, path).await.map(|stat| stat.type_) {
            Ok(DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink)
            | Err(_) => Ok(()),
            Ok(_) => Err(ErrorCode::Unsupported.into()),
        }
    }

    /// Remembers what was refused for want of a right, for the hint that goes with the answer.
    pub(super) fn note<T>(&mut self, fd: u32, path: &str, what_for: Use, result: &FsResult<T>) {
        let Err(error) = result else { return };
        match error.downcast_ref() {
            Some(ErrorCode::NotPermitted) => {}
            Some(ErrorCode::NoEntry) => return self.wanted.missed = true,
            _ => return,
        }
        let directory = self.directory(&Resource::new_borrow(fd));
        if let Ok(place) = directory.and_then(|directory| follow::place(&directory, path)) {
            self.wanted.refuse(&place, what_for, self.grant);
        }
    }

    /// The same of a file that was to go from one directory to another.
    pub(super) fn note_both<T>(
        &mut self,
        (from, old): (u32, &str),
        (to, new): (u32, &str),
        result: &FsResult<T>,
    ) {
        for (fd, path) in [(from, old), (to, new)] {
            self.note(fd, path, Use::Write, result);
        }
    }

    /// Whether there is anything at `path`.
    pub(super) async fn exists(&mut self, fd: Resource<Descriptor>, path: String) -> bool {
        if self.reads_anywhere() {
            self.stat_at(fd, PathFlags::empty(), path).await.is_ok()
        } else {
            self.inner.stat_at(fd, PathFlags::empty(), path).await.is_ok()
        }
    }
}
