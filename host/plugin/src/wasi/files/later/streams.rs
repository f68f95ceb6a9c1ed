//! Streams from and into files. Each contains a stream of WASI 0.2, with its check and its charges, and holds an
//! open file: a guest has at most as many streams as open files.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::oneshot;
use wasmtime::StoreContextMut;
use wasmtime::component::{
    Access, Destination, FutureReader, Resource, ResourceTableError, Source, StreamConsumer, StreamProducer,
    StreamReader, StreamResult,
};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::types::HostDescriptor;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult, StreamError};
use wasmtime_wasi::p3::bindings::filesystem::types::{DirectoryEntry, ErrorCode};

use super::convert::later;
use super::{Ended, at_once, error};
use crate::wasi::capability::MAX_RESOURCES;
use crate::wasi::files::{Files, HasFiles, io_error_code};

/// Maximum number of bytes of one read or write, as in WASI 0.2.
const CHUNK: usize = 64 << 10;

/// The sender of a stream's end. A drop without a message means success.
type End = oneshot::Sender<Result<(), ErrorCode>>;

/// The stream of a file that a guest reads or writes.
pub(super) struct Piped<T> {
    stream: T,
    end: Option<End>,
    _open: Arc<()>,
}

/// A stream, and its end.
type Opened<T> = FsResult<(Piped<T>, oneshot::Receiver<Result<(), ErrorCode>>)>;

fn open(files: &Files<'_>) -> FsResult<Arc<()>> {
    // One reference does not belong to a stream.
    if Arc::strong_count(files.open_streams) > MAX_RESOURCES {
        return Err(FsError::trap(ResourceTableError::Full));
    }
    Ok(files.open_streams.clone())
}

impl<T> Piped<T> {
    fn new(stream: T, open: Arc<()>) -> (Self, oneshot::Receiver<Result<(), ErrorCode>>) {
        let (sender, receiver) = oneshot::channel();
        (Self { stream, end: Some(sender), _open: open }, receiver)
    }
}

/// Reads a file from a place on.
pub(super) fn reading(files: &mut Files<'_>, fd: Resource<Descriptor>, at: u64) -> Opened<DynInputStream> {
    let open = open(files)?;
    let stream = files.read_via_stream(fd, at)?;
    Ok(Piped::new(files.inner.table.delete(stream)?, open))
}

/// Writes a file from a place on, or at its end.
pub(super) fn writing(
    files: &mut Files<'_>,
    fd: Resource<Descriptor>,
    at: Option<u64>,
) -> Opened<DynOutputStream> {
    let open = open(files)?;
    let stream = match at {
        Some(at) => files.write_via_stream(fd, at)?,
        None => files.append_via_stream(fd)?,
    };
    Ok(Piped::new(files.inner.table.delete(stream)?, open))
}

/// Writes a guest's data to the opened file, or reports the error.
pub(super) fn write<S: 'static>(
    mut access: Access<'_, S, HasFiles>,
    mut data: StreamReader<u8>,
    opened: Opened<DynOutputStream>,
) -> wasmtime::Result<Ended> {
    match opened {
        Ok((writing, end)) => {
            data.pipe(&mut access, writing)?;
            FutureReader::new(&mut access, end)
        }
        Err(refused) => {
            data.close(&mut access)?;
            let code = error(refused).downcast()?;
            FutureReader::new(access, async move { wasmtime::error::Ok(Err(code)) })
        }
    }
}

/// Returns the entries of a directory, and the receiver of the reason for their end.
pub(super) fn entries(
    files: &mut Files<'_>,
    fd: Resource<Descriptor>,
) -> wasmtime::Result<(Vec<DirectoryEntry>, Option<FsError>)> {
    let listed = at_once(files.list(fd))?;
    let stream = match listed {
        Ok(stream) => files.inner.table.delete(stream)?,
        Err(refused) => return Ok((Vec::new(), Some(refused))),
    };
    let mut entries = Vec::new();
    for entry in stream {
        match entry {
            Ok(entry) => entries.push(later::directory_entry(entry)),
            Err(stopped) => return Ok((entries, Some(stopped))),
        }
    }
    Ok((entries, None))
}

fn end(sender: &mut Option<End>, error: StreamError) -> wasmtime::Result<StreamResult> {
    let how = match error {
        StreamError::Closed => Ok(()),
        StreamError::LastOperationFailed(error) => Err(later::error_code(io_error_code(&error))),
        StreamError::Trap(trap) => return Err(trap),
    };
    if let Some(sender) = sender.take() {
        // The guest may not wait for the result.
        _ = sender.send(how);
    }
    Ok(StreamResult::Dropped)
}

impl<T> Drop for Piped<T> {
    fn drop(&mut self) {
        _ = end(&mut self.end, StreamError::Closed);
    }
}

impl<S: 'static> StreamProducer<S> for Piped<DynInputStream> {
    type Item = u8;
    type Buffer = Bytes;

    fn poll_produce<'a>(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'a, S>,
        mut destination: Destination<'a, u8, Bytes>,
        _: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let this = self.get_mut();
        let size = destination.remaining(store).unwrap_or(CHUNK).min(CHUNK);
        if size == 0 {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        Poll::Ready(match at_once(this.stream.blocking_read(size))? {
            Ok(bytes) => {
                destination.set_buffer(bytes);
                Ok(StreamResult::Completed)
            }
            Err(error) => end(&mut this.end, error),
        })
    }
}

impl<S: 'static> StreamConsumer<S> for Piped<DynOutputStream> {
    type Item = u8;

    fn poll_consume(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'_, S>,
        source: Source<'_, u8>,
        _: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let this = self.get_mut();
        let mut source = source.as_direct(store);
        let bytes = source.remaining();
        let bytes = Bytes::copy_from_slice(bytes.get(..CHUNK).unwrap_or(bytes));
        let length = bytes.len();
        if length == 0 {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        Poll::Ready(match this.stream.write(bytes) {
            Ok(()) => {
                source.mark_read(length);
                Ok(StreamResult::Completed)
            }
            Err(error) => end(&mut this.end, error),
        })
    }
}
