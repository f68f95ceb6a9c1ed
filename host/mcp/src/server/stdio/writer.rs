//! The writing side of the stdio transport: one message a line, in order. Answers are queued without waiting and
//! written at once if the pipe has room, otherwise by a blocking thread. While more than [`MAX_UNWRITTEN`] bytes
//! are queued, nothing more is read from the client and notifications are dropped.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, MutexGuard};
use std::time::Duration;

use rmcp::model::ServerJsonRpcMessage;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use super::Hangup;
use haft_core::sync::Lock;

/// Maximum number of queued bytes before reading stops: two of the largest messages. A client that writes all its
/// requests before it reads an answer has room for thousands, and a client that never reads cannot exhaust haft's
/// memory. Running requests are still answered.
const MAX_UNWRITTEN: usize = 32 << 20;

/// Maximum number of queued bytes before pieces of process output are dropped.
const MAX_PIECES: usize = 1 << 20;

/// Additional size of a queued message in bytes, so that many small messages count too.
const OVERHEAD: usize = 128;

/// Interval of checks whether the client has hung up during a wait for room.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time limit for the client to read one more of the posted messages while the writer closes.
const FLUSH: Duration = Duration::from_secs(1);

/// Number of bytes that a pipe accepts atomically (`PIPE_BUF`; a page, on Linux).
const AT_ONCE: usize = 4096;

/// The destination of messages.
pub trait Output: Write + Send + 'static {
    /// Returns whether a page (4096 bytes) can be written now without waiting.
    fn is_ready(&self) -> bool {
        false
    }
}

impl Output for File {
    fn is_ready(&self) -> bool {
        let mut descriptors = [PollFd::new(self, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = poll(&mut descriptors, Some(&now));
        ready.is_ok_and(|count| count == 1) && descriptors.iter().all(|one| one.revents() == PollFlags::OUT)
    }
}

/// The queue of messages for one client. Clones share the queue.
#[derive(Clone)]
pub(super) struct Writer(Arc<WriterShared>);

struct WriterShared {
    output: Lock<OutputState>,
    /// The queue of lines for the writer's thread; `None` once the writer is closed.
    sender: Lock<Option<mpsc::UnboundedSender<Vec<u8>>>>,
    /// Bytes of the lines that wait, with the overhead of each.
    unwritten: AtomicUsize,
    /// Wakes a thread that waits until they become fewer.
    fewer: (Lock<()>, Condvar),
    /// Whether writing has ended.
    done: watch::Receiver<bool>,
}

/// The output and the lines held back; only the holder of its lock writes.
struct OutputState {
    pipe: Box<dyn Output>,
    /// Lines to be written before any other, and how many they are.
    held: (Vec<u8>, usize),
}

impl Writer {
    /// Writes to `output`; notifies `hangup` when a write fails.
    pub(super) fn start(output: impl Output, hangup: Arc<Hangup>) -> io::Result<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (finished, done) = watch::channel(false);
        let output = Lock::new(OutputState { pipe: Box::new(output), held: (Vec::new(), 0) });
        let (unwritten, fewer) = Default::default();
        let sender = Lock::new(Some(sender));
        let shared = Arc::new(WriterShared { output, sender, unwritten, fewer, done });
        let own = shared.clone();
        let write = move || {
            if let Err(error) = own.write(receiver) {
                tracing::debug!(%error, "the client stopped reading");
                hangup.client_is_gone();
            }
            let _ = finished.send(true);
            own.fewer.1.notify_all();
        };
        std::thread::Builder::new().name("haft-output".into()).spawn(write)?;
        Ok(Self(shared))
    }

    /// Posts a message, without waiting.
    pub(super) fn post(&self, message: &impl Serialize) -> io::Result<()> {
        self.send(line(message)?)
    }

    /// Posts a notification or question, unless too much is unwritten. Returns whether it was posted.
    pub(super) fn tell(&self, message: &ServerJsonRpcMessage, is_piece: bool) -> bool {
        let most = if is_piece { MAX_PIECES } else { MAX_UNWRITTEN };
        self.0.unwritten.load(Ordering::SeqCst) < most && self.post(message).is_ok()
    }

    /// Posts an answer that may be held back while its thread runs the next of `ahead` calls, so that the client is
    /// woken once for several answers.
    pub(super) fn hold_back(&self, message: &ServerJsonRpcMessage, ahead: usize) -> io::Result<()> {
        let line = line(message)?;
        let output = self.0.output_if_idle();
        let is_taken =
            output.is_some_and(|mut output| output.hold_back(&line, ahead) || output.write_at_once(&line));
        if is_taken { Ok(()) } else { self.send(line) }
    }

    /// Writes the held lines.
    pub(super) fn flush_held(&self) {
        // Another holder of the lock writes it.
        let is_pending =
            |mut output: MutexGuard<'_, OutputState>| output.held.1 > 0 && !output.write_at_once(&[]);
        if self.0.output.try_lock().is_some_and(is_pending) {
            // The thread writes the held lines. If the thread has ended, the client has disconnected.
            let _ = self.send_to_thread(Vec::new());
        }
    }

    /// Blocks while too much is unwritten, unless `is_over`.
    pub(super) fn wait_for_room(&self, is_over: impl Fn() -> bool) {
        let is_full = || self.0.unwritten.load(Ordering::SeqCst) > MAX_UNWRITTEN && !*self.0.done.borrow();
        let (lock, fewer) = &self.0.fewer;
        while is_full() && !is_over() {
            drop(fewer.wait_timeout(lock.lock(), POLL_INTERVAL));
        }
    }

    fn send(&self, line: Vec<u8>) -> io::Result<()> {
        // The thread gets an error of this write again, and handles it.
        let is_written = || self.0.output_if_idle().is_some_and(|mut output| output.write_at_once(&line));
        if self.0.sender.lock().is_some() && is_written() { Ok(()) } else { self.send_to_thread(line) }
    }

    /// Leaves a line to the thread.
    fn send_to_thread(&self, line: Vec<u8>) -> io::Result<()> {
        let size = line.len() + OVERHEAD;
        self.0.unwritten.fetch_add(size, Ordering::SeqCst);
        let sent = self.0.sender.lock().as_ref().is_some_and(|sender| sender.send(line).is_ok());
        if sent {
            return Ok(());
        }
        self.0.unwritten.fetch_sub(size, Ordering::SeqCst);
        Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client stopped reading"))
    }

    /// Writes the posted messages while the client reads, and accepts no more.
    pub(super) async fn close(&self) {
        *self.0.sender.lock() = None;
        let unwritten = || self.0.unwritten.load(Ordering::SeqCst);
        let mut last = unwritten();
        while tokio::time::timeout(FLUSH, self.0.done.clone().wait_for(|done| *done)).await.is_err() {
            if unwritten() >= last {
                return;
            }
            last = unwritten();
        }
    }
}

fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

impl WriterShared {
    /// Returns the output, if nothing is queued for the thread.
    fn output_if_idle(&self) -> Option<MutexGuard<'_, OutputState>> {
        self.output.try_lock().filter(|_| self.unwritten.load(Ordering::SeqCst) == 0)
    }

    fn write(&self, mut receiver: mpsc::UnboundedReceiver<Vec<u8>>) -> io::Result<()> {
        while let Some(line) = receiver.blocking_recv() {
            let mut output = self.output.lock();
            let written = output.write(&line).and_then(|()| output.pipe.flush());
            drop(output);
            self.unwritten.fetch_sub(line.len() + OVERHEAD, Ordering::SeqCst);
            self.fewer.1.notify_all();
            written?;
        }
        // All writers are dropped: the held lines are written here.
        self.output.lock().write(&[])
    }
}

impl OutputState {
    /// Holds a line back if fewer lines are held than calls are `ahead`.
    fn hold_back(&mut self, line: &[u8], ahead: usize) -> bool {
        let (held, count) = &mut self.held;
        let is_held = *count < ahead && held.len() + line.len() <= AT_ONCE;
        if is_held {
            held.extend_from_slice(line);
            *count += 1;
        }
        is_held
    }

    /// Writes the held lines and `line`, if the client accepts them without waiting.
    fn write_at_once(&mut self, line: &[u8]) -> bool {
        let fits = self.held.0.len() + line.len() <= AT_ONCE;
        (fits || self.write_if_ready(&[])) && self.write_if_ready(line)
    }

    fn write_if_ready(&mut self, line: &[u8]) -> bool {
        self.held.0.len() + line.len() <= AT_ONCE && self.pipe.is_ready() && self.write(line).is_ok()
    }

    /// Writes the held lines and `line`. After an error the lines stay held, so that the thread gets the error too.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let (held, count) = &mut self.held;
        if held.is_empty() {
            return self.pipe.write_all(line);
        }
        let (size, is_short) = (held.len(), line.len() <= AT_ONCE);
        if is_short {
            held.extend_from_slice(line);
        }
        if let Err(error) = self.pipe.write_all(held) {
            held.truncate(size);
            return Err(error);
        }
        held.clear();
        *count = 0;
        if is_short { Ok(()) } else { self.pipe.write_all(line) }
    }
}
