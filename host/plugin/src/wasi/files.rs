//! `wasi:filesystem` for guests: exactly the directories of the grant, opened when the guest asks for them. The
//! kernel ensures that a path never escapes its directory. wasmtime-wasi implements operations on open files;
//! haft implements the resolution of paths:
//!
//! - **Resolve, check, open.** A path is resolved to an object without opening it for use, the object is checked,
//!   and that very object is then opened or changed.
//! - **Protected paths stay closed** to every grant (`protected`): haft's own files, and the program in use.
//! - **Reading through links.** If reading is granted everywhere, a path is followed as for the user, absolute
//!   links included; an object opened that way can only be read, even below a writable directory.
//! - **Only files and directories.** Opening a FIFO or a device could block forever, and `/proc` holds haft's own
//!   secrets, and its memory: all three are refused to every grant.
//! - **Every guest has a working directory:** the workspace, with only the granted content (`stand_in`), so that
//!   relative paths work.
//! - **Every write is charged** (`disk_budget`), regardless of the operation.
//! - **A plugin's own directories** (`enter`) lie among haft's own files, and have quotas.
//! - **A replaced file keeps its mode, owner and attributes,** for which WASI has no operation.
//! - **The error of a stream's write** is returned by the next `sync`, as by the kernel.
//!
//! No decision depends on the text of a path: every check is made on an open file.

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream,
    ErrorCode, Filesize, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp,
    OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use crate::denials::denied_access::AccessKind;
use haft_core::tool::inline;
use open::OpenRequest;
use resolve::{Bounds, Links};
use view::links;

mod entries;
mod later;
mod open;
pub(crate) mod protected;
mod refuse;
mod relative;
mod resolve;
mod stand_in;
mod view;

pub(crate) use protected::ProtectedPathsCache;
pub(crate) use relative::named;
pub(crate) use view::{FileState, Files, HasFiles};

pub(crate) fn io_error_code(error: &wasmtime::Error) -> ErrorCode {
    let failed = error.downcast_ref::<std::io::Error>();
    failed.map_or(ErrorCode::Io, |failed| resolve::code(failed).unwrap_or_else(|| ErrorCode::from(failed)))
}

impl types::Host for Files<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.inner.convert_error_code(error)
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        let failed = self.inner.table.get(&error)?.downcast_ref::<std::io::Error>();
        if let Some(code) = failed.and_then(resolve::code) {
            return Ok(Some(code));
        }
        self.inner.filesystem_error_code(error)
    }
}

impl HostDescriptor for Files<'_> {
    async fn open_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        self.enter(&fd);
        let request = OpenRequest::new(open_flags, flags)?;
        let what_for = if request.changes() { AccessKind::Write } else { AccessKind::Read };
        let (directory, path) = self.at(&fd, path, what_for)?;
        self.stay_or_leave(&directory, &path).await;
        let opened = self.open(&directory, &path, links(path_flags), request);
        self.record_refusal((&directory, &path), what_for, &opened);
        self.push(opened?)
    }

    async fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        self.enter(&fd);
        if self.is_way(&fd, &path) {
            return Ok(stand_in::stat());
        }
        let (directory, path) = self.at(&fd, path, AccessKind::Read)?;
        self.stay_or_leave(&directory, &path).await;
        let seen = self.resolve_visible(&directory, &path, links(flags), self.bounds());
        self.record_refusal((&directory, &path), AccessKind::Read, &seen);
        let seen = self.push_metadata_handle(seen?.file)?;
        let stat = self.inner.stat(Resource::new_borrow(seen.rep())).await;
        self.inner.table.delete(seen)?;
        stat
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        self.enter(&fd);
        if self.is_way(&fd, &path) {
            return Ok(stand_in::HASH);
        }
        let (directory, path) = self.at(&fd, path, AccessKind::Read)?;
        self.stay_or_leave(&directory, &path).await;
        let seen = self.resolve_visible(&directory, &path, links(flags), self.bounds())?;
        let seen = self.push_metadata_handle(seen.file)?;
        let hash = self.inner.metadata_hash(Resource::new_borrow(seen.rep())).await;
        self.inner.table.delete(seen)?;
        hash
    }

    async fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        self.enter(&fd);
        let (directory, path) = self.at(&fd, path, AccessKind::Read)?;
        self.stay_or_leave(&directory, &path).await;
        self.resolve_visible(&directory, &path, Links::Keep, Bounds::Beneath)?;
        let place = self.inner.table.push(Descriptor::Dir(directory))?;
        let target = self.inner.readlink_at(Resource::new_borrow(place.rep()), path).await;
        self.inner.table.delete(place)?;
        target
    }

    async fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        old_path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        self.enter_both(&fd, &new_fd)?;
        let (from, old_path) = self.at(&fd, old_path, AccessKind::Write)?;
        let (to, new_path) = self.at(&new_fd, new_path, AccessKind::Write)?;
        let renamed = self.rename((&from, &old_path), (&to, &new_path));
        self.record_refusals((&from, &old_path), (&to, &new_path), &renamed);
        renamed
    }

    async fn create_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.enter(&fd);
        let (directory, path) = self.at(&fd, path, AccessKind::Write)?;
        let protected = self.denied.protected.clone();
        let created = self.make_directory(&directory, &path);
        // As in the kernel, `Exist` precedes a refusal: tools create all parent directories of a file without
        // checking which exist.
        if created.is_err() && self.resolve_visible(&directory, &path, Links::Keep, self.bounds()).is_ok() {
            self.denied.protected = protected;
            return Err(ErrorCode::Exist.into());
        }
        self.record_refusal((&directory, &path), AccessKind::Write, &created);
        created
    }

    async fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.enter(&fd);
        let (directory, path) = self.at(&fd, path, AccessKind::Write)?;
        let unlinked = self.remove_file(&directory, &path);
        self.record_refusal((&directory, &path), AccessKind::Write, &unlinked);
        unlinked
    }

    async fn remove_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.enter(&fd);
        let (directory, path) = self.at(&fd, path, AccessKind::Write)?;
        let removed = self.remove_directory(&directory, &path);
        self.record_refusal((&directory, &path), AccessKind::Write, &removed);
        removed
    }

    async fn set_times_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        self.enter(&fd);
        let (directory, path) = self.at(&fd, path, AccessKind::Write)?;
        let times = entries::timestamps(accessed, modified)?;
        let set = self.set_times_at_path(&directory, &path, links(flags), &times);
        self.record_refusal((&directory, &path), AccessKind::Write, &set);
        set
    }

    async fn link_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        old_path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        self.enter_both(&fd, &new_fd)?;
        if flags.contains(PathFlags::SYMLINK_FOLLOW) {
            return Err(ErrorCode::Invalid.into());
        }
        let (from, old_path) = self.at(&fd, old_path, AccessKind::Write)?;
        let (to, new_path) = self.at(&new_fd, new_path, AccessKind::Write)?;
        let linked = self.link((&from, &old_path), (&to, &new_path));
        self.record_refusals((&from, &old_path), (&to, &new_path), &linked);
        linked
    }

    async fn symlink_at(&mut self, fd: Resource<Descriptor>, target: String, path: String) -> FsResult<()> {
        self.enter(&fd);
        let (directory, path) = self.at(&fd, path, AccessKind::Write)?;
        let linked = self.symlink(&directory, &target, &path);
        self.record_refusal((&directory, &path), AccessKind::Write, &linked);
        linked
    }

    // The following functions forward every call, and charge writes.

    async fn advise(
        &mut self,
        fd: Resource<Descriptor>,
        at: Filesize,
        len: Filesize,
        advice: Advice,
    ) -> FsResult<()> {
        self.inner.advise(fd, at, len, advice).await
    }

    async fn sync_data(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.disk.take_failure().map_err(resolve::error)?;
        self.inner.sync_data(fd).await
    }

    async fn get_flags(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        self.inner.get_flags(fd).await
    }

    async fn get_type(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorType> {
        self.inner.get_type(fd).await
    }

    async fn set_size(&mut self, fd: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        self.enter(&fd);
        if let Descriptor::File(file) = self.inner.table.get(&fd)?
            && !file.perms.write_not_permitted()
        {
            self.disk.resize(&file.file, size)?;
        }
        self.inner.set_size(fd, size).await
    }

    async fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        self.inner.set_times(fd, accessed, modified).await
    }

    async fn read(
        &mut self,
        fd: Resource<Descriptor>,
        len: Filesize,
        at: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        self.inner.read(fd, len, at).await
    }

    async fn write(&mut self, fd: Resource<Descriptor>, bytes: Vec<u8>, at: Filesize) -> FsResult<Filesize> {
        self.enter(&fd);
        if let Descriptor::File(file) = self.inner.table.get(&fd)?
            && !file.perms.write_not_permitted()
        {
            self.disk.write(&file.file, Some(at), bytes.len() as u64)?;
        }
        self.inner.write(fd, bytes, at).await
    }

    async fn read_directory(&mut self, fd: Resource<Descriptor>) -> FsResult<Resource<DirectoryEntryStream>> {
        // All entries are read at once, and there may be many.
        inline::leave().await;
        self.list(fd).await
    }

    async fn sync(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.disk.take_failure().map_err(resolve::error)?;
        self.inner.sync(fd).await
    }

    async fn stat(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        if !self.is_listed(&fd) {
            return Ok(stand_in::stat());
        }
        self.inner.stat(fd).await
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        self.forget(&fd);
        HostDescriptor::drop(&mut self.inner, fd)
    }

    fn read_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        at: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        self.inner.read_via_stream(fd, at)
    }

    fn write_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        at: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.enter(&fd);
        let file = self.file(&fd)?;
        let stream = self.inner.write_via_stream(fd, at)?;
        self.counted(stream, &file, Some(at))
    }

    fn append_via_stream(&mut self, fd: Resource<Descriptor>) -> FsResult<Resource<DynOutputStream>> {
        self.enter(&fd);
        let file = self.file(&fd)?;
        let stream = self.inner.append_via_stream(fd)?;
        self.counted(stream, &file, None)
    }

    async fn is_same_object(
        &mut self,
        a: Resource<Descriptor>,
        b: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        self.inner.is_same_object(a, b).await
    }

    async fn metadata_hash(&mut self, fd: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
        if !self.is_listed(&fd) {
            return Ok(stand_in::HASH);
        }
        self.inner.metadata_hash(fd).await
    }
}

impl HostDirectoryEntryStream for Files<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        self.inner.read_directory_entry(stream).await
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        HostDirectoryEntryStream::drop(&mut self.inner, stream)
    }
}
