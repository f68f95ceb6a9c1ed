//! The disk limit of one call. Charged before haft writes for a guest: the bytes of a write, or the growth of the
//! file if that is more, so that holes count too; and a fixed cost for every created file, directory and link,
//! which bounds their number. Removing files returns nothing: otherwise a call could write and remove without end.

use std::fs::File;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use haft_state::{FileQuota, QuotaError};
use rustix::io::Errno;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{
    DynOutputStream, FsError, FsResult, OutputStream, Pollable, StreamError, StreamResult,
};

/// Size in bytes that a file, a directory or a link counts besides its content: a block, the minimum in file
/// systems.
const ENTRY: u64 = 4096;

/// The rest of a call's disk limit. Its streams share it.
pub(crate) struct Disk {
    left: AtomicU64,
    exceeded: AtomicBool,
    /// The errno of a failed write to a stream, until the guest requests it; 0 for none. C libraries of guests
    /// report only that a stream failed.
    failed: AtomicI32,
    private: Option<Private>,
}

pub(crate) type GoesOn = Arc<dyn Fn() -> bool + Send + Sync>;

/// The quota of a private directory, and the limit of the call that writes there.
struct Private {
    call: Arc<Disk>,
    quota: Arc<FileQuota>,
    goes_on: GoesOn,
}

impl Disk {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            left: AtomicU64::new(limit),
            exceeded: AtomicBool::new(false),
            failed: AtomicI32::new(0),
            private: None,
        }
    }

    /// Creates the budget of a private directory with `quota`, in which `call` writes: both are charged.
    pub(crate) fn private(call: Arc<Self>, quota: Arc<FileQuota>, goes_on: GoesOn) -> Self {
        Self { private: Some(Private { call, quota, goes_on }), ..Self::new(0) }
    }

    pub(crate) fn renew(&self, limit: u64) {
        self.left.store(limit, Ordering::Relaxed);
        self.exceeded.store(false, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
    }

    /// Returns the error of a stream's write since the last query, as `fsync` does.
    pub(crate) fn take_failure(&self) -> io::Result<()> {
        match self.failed.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }

    fn note_failure(&self, written: &StreamResult<()>) {
        if let Err(StreamError::LastOperationFailed(error)) = written {
            let number = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
            self.failed.store(number.unwrap_or(0), Ordering::Relaxed);
        }
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }

    fn charge(&self, bytes: u64) -> Result<(), Refused> {
        if let Some(private) = &self.private {
            return private.charge(bytes, &self.exceeded);
        }
        let less = |left: u64| left.checked_sub(bytes);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.map(drop).map_err(|_| {
            self.exceeded.store(true, Ordering::Relaxed);
            Refused::Exceeded
        })
    }

    /// Returns the charge for an object that was not created.
    fn refund(&self, bytes: u64) {
        match &self.private {
            Some(private) => {
                private.quota.refund(bytes);
                private.call.refund(bytes);
            }
            None => _ = self.left.fetch_add(bytes, Ordering::Relaxed),
        }
    }

    /// Charges and runs the creation of a file, directory or link. A failed creation costs nothing.
    pub(crate) fn charge_entry<T>(
        &self,
        make: impl FnOnce() -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        self.charge(ENTRY).map_err(Refused::errno)?;
        let outcome = make();
        if outcome.is_err() {
            self.refund(ENTRY);
        }
        outcome
    }

    /// Charges a write of `length` bytes to `file`, `at` an offset or at its end, before it is made.
    pub(crate) fn write(&self, file: &File, at: Option<u64>, length: u64) -> FsResult<()> {
        Ok(self.charge(cost(file, at, length).map_err(|error| ErrorCode::from(&error))?)?)
    }

    /// Before `file` is given another size.
    pub(crate) fn resize(&self, file: &File, size: u64) -> FsResult<()> {
        let now = file.metadata().map_err(|error| ErrorCode::from(&error))?.len();
        Ok(self.charge(size.saturating_sub(now))?)
    }

    pub(crate) fn counted(
        self: &Arc<Self>,
        stream: DynOutputStream,
        file: &Arc<File>,
        at: Option<u64>,
    ) -> DynOutputStream {
        Box::new(Counted { stream, file: file.clone(), at, disk: self.clone(), is_closed: false })
    }
}

fn cost(file: &File, at: Option<u64>, length: u64) -> io::Result<u64> {
    let Some(at) = at else { return Ok(length) };
    let grown = at.saturating_add(length).saturating_sub(file.metadata()?.len());
    Ok(grown.max(length))
}

impl Private {
    fn charge(&self, bytes: u64, exceeded: &AtomicBool) -> Result<(), Refused> {
        self.call.charge(bytes)?;
        let taken = self.quota.charge(bytes, &*self.goes_on);
        taken.map_err(|error| {
            self.call.refund(bytes);
            exceeded.fetch_or(error == QuotaError::Full, Ordering::Relaxed);
            match error {
                QuotaError::Full => Refused::Exceeded,
                QuotaError::Busy => Refused::Busy,
                QuotaError::Unusable => Refused::Unusable,
            }
        })
    }
}

/// The reason why nothing may be written.
#[derive(Clone, Copy)]
enum Refused {
    /// The disk limit is reached, or a quota. Guests know both as their quota.
    Exceeded,
    /// Another call writes in the private directory.
    Busy,
    /// The current content cannot be measured.
    Unusable,
}

impl Refused {
    fn errno(self) -> Errno {
        match self {
            Self::Exceeded => Errno::DQUOT,
            Self::Busy => Errno::BUSY,
            Self::Unusable => Errno::IO,
        }
    }
}

impl From<Refused> for FsError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Exceeded => ErrorCode::Quota,
            Refused::Busy => ErrorCode::Busy,
            Refused::Unusable => ErrorCode::Io,
        }
        .into()
    }
}

struct Counted {
    stream: DynOutputStream,
    file: Arc<File>,
    /// The position of the next write; `None` for the end of the file.
    at: Option<u64>,
    disk: Arc<Disk>,
    /// Whether a write was refused: a stream is unusable after an error.
    is_closed: bool,
}

impl Counted {
    fn charge(&mut self, length: usize) -> StreamResult<()> {
        let failed = |error: io::Error| StreamError::LastOperationFailed(error.into());
        if self.is_closed {
            return Err(StreamError::Closed);
        }
        let length = length as u64;
        let cost = cost(&self.file, self.at, length).map_err(failed)?;
        if let Err(refused) = self.disk.charge(cost) {
            self.is_closed = true;
            self.disk.failed.store(refused.errno().raw_os_error(), Ordering::Relaxed);
            return Err(failed(refused.errno().into()));
        }
        self.at = self.at.map(|at| at.saturating_add(length));
        Ok(())
    }
}

#[async_trait]
impl OutputStream for Counted {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.charge(bytes.len())?;
        // A guest's thread may block. wasmtime's own `write` would wake another thread for every 64 KiB.
        let written = pin!(self.stream.blocking_write_and_flush(bytes));
        match written.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(written) => {
                self.disk.note_failure(&written);
                written
            }
            Poll::Pending => {
                Err(StreamError::Trap(wasmtime::Error::msg("a file that this thread may not wait for")))
            }
        }
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        // Earlier writes are in the file then, and its size counts.
        self.stream.ready().await;
        self.charge(bytes.len())?;
        let written = self.stream.blocking_write_and_flush(bytes).await;
        self.disk.note_failure(&written);
        written
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.stream.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        if self.is_closed { Err(StreamError::Closed) } else { self.stream.check_write() }
    }

    async fn cancel(&mut self) {
        self.stream.cancel().await;
    }
}

#[async_trait]
impl Pollable for Counted {
    async fn ready(&mut self) {
        self.stream.ready().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(disk: &Disk) -> u64 {
        disk.left.load(Ordering::Relaxed)
    }

    /// S17: holes, many small writes and many names count with at least the space that they take.
    #[test]
    fn what_is_written_is_counted() {
        let file = tempfile::tempfile().unwrap();
        let disk = Disk::new(100_000);
        disk.write(&file, Some(0), 1000).unwrap();
        file.set_len(1000).unwrap();
        assert_eq!(left(&disk), 99_000);
        disk.write(&file, Some(0), 500).unwrap();
        assert_eq!(left(&disk), 98_500, "a write in place is one all the same");
        disk.write(&file, Some(10_999), 1).unwrap();
        assert_eq!(left(&disk), 88_500, "a hole counts");
        disk.write(&file, None, 500).unwrap();
        disk.resize(&file, 1000).unwrap();
        disk.resize(&file, 10).unwrap();
        assert_eq!(left(&disk), 88_000);
        assert!(disk.resize(&file, 1 << 40).is_err() && disk.write(&file, Some(u64::MAX), 9).is_err());
        assert!(disk.is_exceeded());
        disk.renew(2 * ENTRY);
        assert!(!disk.is_exceeded());
        assert_eq!(disk.charge_entry::<()>(|| Err(Errno::EXIST)), Err(Errno::EXIST));
        assert_eq!([disk.charge_entry(|| Ok(1)), disk.charge_entry(|| Ok(2))], [Ok(1), Ok(2)]);
        assert_eq!(disk.charge_entry(|| Ok(3)), Err(Errno::DQUOT));
        assert!(disk.is_exceeded());
    }
}
