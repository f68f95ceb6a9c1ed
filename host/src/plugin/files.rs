//! `wasi:filesystem` as guests see it: exactly the directories of the grant, opened when the
//! guest asks for them. Everything is wasmtime-wasi's own implementation, which never leaves a
//! directory, but for three things:
//!
//! - **Reading through links.** Where reading is granted everywhere, a path is followed as the
//!   person would follow it, absolute links included; what is opened that way can be read and
//!   nothing else, even below a writable directory.
//! - **Only files and directories.** Opening a FIFO or a device could wait for ever, and
//!   `/proc` holds haft's own secrets, and its memory: all three are refused, whatever is granted.
//! - **A replaced file keeps its mode and owner,** which WASI has no way to ask for.
//!
//! It refuses to judge a path as text: every decision is made on an open file.

use std::fs::File;

use rustix::fs::{FileType, fstat};
use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::filesystem::{Descriptor, Dir, File as WasiFile, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream,
    ErrorCode, Filesize, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp,
    OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};
use wasmtime_wasi::{FsPerms, OpenMode};

use super::state::State;
use super::wanted::{Use, Wanted};
use crate::grant::{Grant, Reach};
use follow::Links;

mod follow;
mod preopens;
mod refuse;
mod replace;

/// The type under which wasmtime finds [`Files`] in a store.
pub(super) struct HasFiles;

/// A guest's view of the file system.
pub(super) struct Files<'a> {
    inner: WasiFilesystemCtxView<'a>,
    grant: &'a Grant,
    wanted: &'a mut Wanted,
}

impl HasData for HasFiles {
    type Data<'a> = Files<'a>;
}

/// The view of one store.
pub(super) fn view(state: &mut State) -> Files<'_> {
    let inner = WasiFilesystemCtxView { ctx: state.wasi.filesystem(), table: &mut state.table };
    Files { inner, grant: &state.grant, wanted: &mut state.wanted }
}

impl Files<'_> {
    /// A second handle of the directory `fd` stands for.
    fn directory(&self, fd: &Resource<Descriptor>) -> FsResult<Dir> {
        match self.inner.table.get(fd)? {
            Descriptor::Dir(directory) => Ok(directory.clone()),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// Opens `path` as the person would, for reading.
    fn follow(
        &mut self,
        fd: &Resource<Descriptor>,
        path: &str,
        flags: PathFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let file = follow::open(&self.directory(fd)?, path, links(flags))?;
        let descriptor = if FileType::from_raw_mode(mode_of(&file)?) == FileType::Directory {
            Descriptor::Dir(Dir::new(file, FsPerms::ReadOnly, OpenMode::READ, true))
        } else {
            Descriptor::File(WasiFile::new(file, FsPerms::ReadOnly, OpenMode::READ, true))
        };
        Ok(self.inner.table.push(descriptor)?)
    }

    /// A descriptor of whatever `path` leads to, good for asking about it and for nothing else.
    fn glance(
        &mut self,
        fd: &Resource<Descriptor>,
        path: &str,
        flags: PathFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let file = follow::glance(&self.directory(fd)?, path, links(flags))?;
        let descriptor = Descriptor::File(WasiFile::new(file, FsPerms::ReadOnly, OpenMode::empty(), true));
        Ok(self.inner.table.push(descriptor)?)
    }

    /// Whether a look at a path may leave the directory it starts from.
    fn reads_anywhere(&self) -> bool {
        self.grant.readable() == Reach::Anywhere
    }
}

/// What becomes of a link at the end of a path.
fn links(flags: PathFlags) -> Links {
    if flags.contains(PathFlags::SYMLINK_FOLLOW) { Links::Follow } else { Links::Keep }
}

fn mode_of(file: &File) -> FsResult<u32> {
    Ok(fstat(file).map_err(std::io::Error::from).map_err(follow::error)?.st_mode)
}

impl types::Host for Files<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.inner.convert_error_code(error)
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
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
        let changes = OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::EXCLUSIVE;
        let writes = open_flags.intersects(changes)
            || flags.intersects(DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY);
        if !writes && self.reads_anywhere() {
            let opened = self.follow(&fd, &path, path_flags)?;
            if open_flags.contains(OpenFlags::DIRECTORY) {
                self.directory(&opened)?;
            }
            return Ok(opened);
        }
        self.refuse_devices(Resource::new_borrow(fd.rep()), path_flags, path.clone()).await?;
        let place = fd.rep();
        let opened = self.inner.open_at(fd, path_flags, path.clone(), open_flags, flags).await;
        self.note(place, &path, if writes { Use::Write } else { Use::Read }, &opened);
        self.refuse_processes(opened?)
    }

    async fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        if !self.reads_anywhere() {
            let place = fd.rep();
            let stat = self.inner.stat_at(fd, flags, path.clone()).await;
            self.note(place, &path, Use::Read, &stat);
            return stat;
        }
        let seen = self.glance(&fd, &path, flags)?;
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
        if !self.reads_anywhere() {
            return self.inner.metadata_hash_at(fd, flags, path).await;
        }
        let seen = self.glance(&fd, &path, flags)?;
        let hash = self.inner.metadata_hash(Resource::new_borrow(seen.rep())).await;
        self.inner.table.delete(seen)?;
        hash
    }

    async fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        old_path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let (from, to) = (self.directory(&fd)?, self.directory(&new_fd)?);
        if from.perms == FsPerms::ReadWrite && to.perms == FsPerms::ReadWrite {
            replace::keep_mode(&from, &old_path, &to, &new_path);
        }
        let (old, new) = (fd.rep(), new_fd.rep());
        let renamed = self.inner.rename_at(fd, old_path.clone(), new_fd, new_path.clone()).await;
        self.note_both((old, &old_path), (new, &new_path), &renamed);
        renamed
    }

    async fn create_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        let place = fd.rep();
        let created = self.inner.create_directory_at(fd, path.clone()).await;
        // As a kernel has it: what is there already need not be made, whoever may make it. Tools make
        // all the directories on the way to a file without looking.
        if created.is_err() && self.exists(Resource::new_borrow(place), path.clone()).await {
            return Err(ErrorCode::Exist.into());
        }
        self.note(place, &path, Use::Write, &created);
        created
    }

    async fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        let place = fd.rep();
        let unlinked = self.inner.unlink_file_at(fd, path.clone()).await;
        self.note(place, &path, Use::Write, &unlinked);
        unlinked
    }

    async fn remove_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        let place = fd.rep();
        let removed = self.inner.remove_directory_at(fd, path.clone()).await;
        self.note(place, &path, Use::Write, &removed);
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
        let place = fd.rep();
        let set = self.inner.set_times_at(fd, flags, path.clone(), accessed, modified).await;
        self.note(place, &path, Use::Write, &set);
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
        let (old, new) = (fd.rep(), new_fd.rep());
        let linked = self.inner.link_at(fd, flags, old_path.clone(), new_fd, new_path.clone()).await;
        self.note_both((old, &old_path), (new, &new_path), &linked);
        linked
    }

    async fn symlink_at(&mut self, fd: Resource<Descriptor>, target: String, path: String) -> FsResult<()> {
        let place = fd.rep();
        let linked = self.inner.symlink_at(fd, target, path.clone()).await;
        self.note(place, &path, Use::Write, &linked);
        linked
    }

    // What follows hands every call on unchanged.

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
        self.inner.sync_data(fd).await
    }

    async fn get_flags(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        self.inner.get_flags(fd).await
    }

    async fn get_type(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorType> {
        self.inner.get_type(fd).await
    }

    async fn set_size(&mut self, fd: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
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
        self.inner.write(fd, bytes, at).await
    }

    async fn read_directory(&mut self, fd: Resource<Descriptor>) -> FsResult<Resource<DirectoryEntryStream>> {
        self.inner.read_directory(fd).await
    }

    async fn sync(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.inner.sync(fd).await
    }

    async fn stat(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        self.inner.stat(fd).await
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.inner, fd)
    }

    async fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        self.inner.readlink_at(fd, path).await
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
        self.inner.write_via_stream(fd, at)
    }

    fn append_via_stream(&mut self, fd: Resource<Descriptor>) -> FsResult<Resource<DynOutputStream>> {
        self.inner.append_via_stream(fd)
    }

    async fn is_same_object(
        &mut self,
        a: Resource<Descriptor>,
        b: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        self.inner.is_same_object(a, b).await
    }

    async fn metadata_hash(&mut self, fd: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
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
