//! `wasi:filesystem` of WASI 0.3. Every path and every change goes through the implementation for WASI 0.2 and its
//! checks; this file converts types. No operation waits for another thread: a guest's own thread may block on a
//! disk. A call on the reading thread moves to a guest's thread before a path is followed.

mod convert;
mod streams;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use wasmtime::AsContextMut;
use wasmtime::component::{Access, Accessor, FutureReader, Resource, StreamReader};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::preopens::Host as EarlierPreopens;
use wasmtime_wasi::p2::bindings::filesystem::types::HostDescriptor as Earlier;
use wasmtime_wasi::p2::{FsError, FsResult};
use wasmtime_wasi::p3::bindings::filesystem::preopens;
use wasmtime_wasi::p3::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode, Filesize,
    HostDescriptor, HostDescriptorWithStore, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p3::filesystem::{FilesystemError, FilesystemResult};

use self::convert::{earlier, later};
use crate::wasi::files::{Files, HasFiles};
use haft_core::tool::inline;

/// A guest's access to its files, through the store.
type Guest<S> = Accessor<S, HasFiles>;

type Ended = FutureReader<Result<(), ErrorCode>>;

/// Returns the value of work that waits for nothing but a disk.
fn at_once<T>(work: impl Future<Output = T>) -> wasmtime::Result<T> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Ok(done),
        Poll::Pending => Err(wasmtime::Error::msg("a file that this thread may not wait for")),
    }
}

fn with_files<S: 'static, T>(
    guest: &Guest<S>,
    work: impl AsyncFnOnce(&mut Files<'_>) -> FsResult<T>,
) -> FilesystemResult<T> {
    guest.with(|mut access| {
        let mut files = access.get();
        let done = at_once(work(&mut files)).map_err(FilesystemError::trap)?;
        done.map_err(error)
    })
}

fn error(error: FsError) -> FilesystemError {
    match error.downcast() {
        Ok(code) => later::error_code(code).into(),
        Err(trap) => FilesystemError::trap(trap),
    }
}

/// Returns a stream of these items, and its end, both of which are known.
fn known<T>(
    mut store: impl AsContextMut,
    items: Vec<T>,
    end: Result<(), ErrorCode>,
) -> wasmtime::Result<(StreamReader<T>, Ended)>
where
    T: wasmtime::component::Lower + wasmtime::component::Lift + Send + Sync + Unpin + 'static,
{
    let stream = StreamReader::new(&mut store, items)?;
    Ok((stream, FutureReader::new(store, async move { wasmtime::error::Ok(end) })?))
}

impl types::Host for Files<'_> {
    fn convert_error_code(&mut self, error: FilesystemError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }
}

impl preopens::Host for Files<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        EarlierPreopens::get_directories(self)
    }
}

impl HostDescriptor for Files<'_> {
    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        Earlier::drop(self, fd)
    }
}

impl<S: 'static> HostDescriptorWithStore<S> for HasFiles {
    fn read_via_stream(
        mut access: Access<'_, S, Self>,
        fd: Resource<Descriptor>,
        at: Filesize,
    ) -> wasmtime::Result<(StreamReader<u8>, Ended)> {
        match streams::reading(&mut access.get(), fd, at) {
            Ok((reading, end)) => {
                let stream = StreamReader::new(&mut access, reading)?;
                Ok((stream, FutureReader::new(&mut access, end)?))
            }
            Err(refused) => known(access, Vec::new(), Err(error(refused).downcast()?)),
        }
    }

    fn write_via_stream(
        mut access: Access<'_, S, Self>,
        fd: Resource<Descriptor>,
        data: StreamReader<u8>,
        at: Filesize,
    ) -> wasmtime::Result<Ended> {
        let opened = streams::writing(&mut access.get(), fd, Some(at));
        streams::write(access, data, opened)
    }

    fn append_via_stream(
        mut access: Access<'_, S, Self>,
        fd: Resource<Descriptor>,
        data: StreamReader<u8>,
    ) -> wasmtime::Result<Ended> {
        let opened = streams::writing(&mut access.get(), fd, None);
        streams::write(access, data, opened)
    }

    fn read_directory(
        mut access: Access<'_, S, Self>,
        fd: Resource<Descriptor>,
    ) -> wasmtime::Result<(StreamReader<DirectoryEntry>, Ended)> {
        let entries = streams::entries(&mut access.get(), fd)?;
        let end = entries.1.map_or(Ok(Ok(())), |stopped| error(stopped).downcast().map(Err))?;
        known(access, entries.0, end)
    }

    async fn advise(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        at: Filesize,
        length: Filesize,
        advice: Advice,
    ) -> FilesystemResult<()> {
        with_files(guest, async |files| Earlier::advise(files, fd, at, length, earlier::advice(advice)).await)
    }

    async fn sync_data(guest: &Guest<S>, fd: Resource<Descriptor>) -> FilesystemResult<()> {
        with_files(guest, async |files| Earlier::sync_data(files, fd).await)
    }

    async fn get_flags(guest: &Guest<S>, fd: Resource<Descriptor>) -> FilesystemResult<DescriptorFlags> {
        with_files(guest, async |files| Earlier::get_flags(files, fd).await).map(later::descriptor_flags)
    }

    async fn get_type(guest: &Guest<S>, fd: Resource<Descriptor>) -> FilesystemResult<DescriptorType> {
        with_files(guest, async |files| Earlier::get_type(files, fd).await).map(later::descriptor_type)
    }

    async fn set_size(guest: &Guest<S>, fd: Resource<Descriptor>, size: Filesize) -> FilesystemResult<()> {
        with_files(guest, async |files| Earlier::set_size(files, fd, size).await)
    }

    async fn set_times(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FilesystemResult<()> {
        let (accessed, modified) = (earlier::new_timestamp(accessed)?, earlier::new_timestamp(modified)?);
        with_files(guest, async |files| Earlier::set_times(files, fd, accessed, modified).await)
    }

    async fn sync(guest: &Guest<S>, fd: Resource<Descriptor>) -> FilesystemResult<()> {
        with_files(guest, async |files| Earlier::sync(files, fd).await)
    }

    async fn create_directory_at(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FilesystemResult<()> {
        with_files(guest, async |files| Earlier::create_directory_at(files, fd, path).await)
    }

    async fn stat(guest: &Guest<S>, fd: Resource<Descriptor>) -> FilesystemResult<DescriptorStat> {
        with_files(guest, async |files| Earlier::stat(files, fd).await).map(later::stat)
    }

    async fn stat_at(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FilesystemResult<DescriptorStat> {
        inline::leave().await;
        let flags = earlier::path_flags(flags);
        with_files(guest, async |files| Earlier::stat_at(files, fd, flags, path).await).map(later::stat)
    }

    async fn set_times_at(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FilesystemResult<()> {
        let (accessed, modified) = (earlier::new_timestamp(accessed)?, earlier::new_timestamp(modified)?);
        let flags = earlier::path_flags(flags);
        with_files(guest, async |files| {
            Earlier::set_times_at(files, fd, flags, path, accessed, modified).await
        })
    }

    async fn link_at(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        old_path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FilesystemResult<()> {
        let flags = earlier::path_flags(flags);
        with_files(guest, async |files| Earlier::link_at(files, fd, flags, old_path, new_fd, new_path).await)
    }

    async fn open_at(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FilesystemResult<Resource<Descriptor>> {
        inline::leave().await;
        let path_flags = earlier::path_flags(path_flags);
        let (open_flags, flags) = (earlier::open_flags(open_flags), earlier::descriptor_flags(flags));
        with_files(guest, async |files| {
            Earlier::open_at(files, fd, path_flags, path, open_flags, flags).await
        })
    }

    async fn readlink_at(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FilesystemResult<String> {
        inline::leave().await;
        with_files(guest, async |files| Earlier::readlink_at(files, fd, path).await)
    }

    async fn remove_directory_at(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FilesystemResult<()> {
        with_files(guest, async |files| Earlier::remove_directory_at(files, fd, path).await)
    }

    async fn rename_at(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        old_path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FilesystemResult<()> {
        with_files(guest, async |files| Earlier::rename_at(files, fd, old_path, new_fd, new_path).await)
    }

    async fn symlink_at(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        target: String,
        path: String,
    ) -> FilesystemResult<()> {
        with_files(guest, async |files| Earlier::symlink_at(files, fd, target, path).await)
    }

    async fn unlink_file_at(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FilesystemResult<()> {
        with_files(guest, async |files| Earlier::unlink_file_at(files, fd, path).await)
    }

    async fn is_same_object(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        guest.with(|mut access| {
            let mut files = access.get();
            at_once(Earlier::is_same_object(&mut files, fd, other))?
        })
    }

    async fn metadata_hash(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
    ) -> FilesystemResult<MetadataHashValue> {
        with_files(guest, async |files| Earlier::metadata_hash(files, fd).await).map(later::metadata_hash)
    }

    async fn metadata_hash_at(
        guest: &Guest<S>,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FilesystemResult<MetadataHashValue> {
        inline::leave().await;
        let flags = earlier::path_flags(flags);
        with_files(guest, async |files| Earlier::metadata_hash_at(files, fd, flags, path).await)
            .map(later::metadata_hash)
    }
}
