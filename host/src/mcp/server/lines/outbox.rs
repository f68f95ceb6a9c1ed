//! The writing side: messages are written one after the other, each on a line of its own. What the
//! client takes at once is written at once; the rest by a thread that waits for it. A client that does
//! not read makes whoever posts wait, and nobody else.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use rmcp::model::ServerJsonRpcMessage;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Messages that wait to be written.
const QUEUE: usize = 64;

/// How long closing waits for what was posted. Whoever still reads takes it at once.
const FLUSH: Duration = Duration::from_secs(1);

/// Bytes that a pipe takes at once when it takes any (`PIPE_BUF`; a page, on Linux).
const AT_ONCE: usize = 4096;

/// Where messages go.
pub trait Output: Write + Send + 'static {
    /// Whether a page (4096 bytes) can be written now without waiting.
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

/// Where messages are posted. Clones post to the same client.
#[derive(Clone)]
pub(super) struct Outbox {
    shared: Arc<Shared>,
    sender: Option<mpsc::Sender<Vec<u8>>>,
    done: watch::Receiver<bool>,
}

/// An [`Outbox`] that does not keep the writing side from ending.
pub(super) struct WeakOutbox(Arc<Shared>, Option<mpsc::WeakSender<Vec<u8>>>, watch::Receiver<bool>);

struct Shared {
    pen: Mutex<Pen>,
    /// Messages that wait for the thread.
    waiting: AtomicUsize,
}

/// Who has it writes.
struct Pen {
    output: Box<dyn Output>,
    /// Lines to be written before any other, and how many they are.
    held: (Vec<u8>, usize),
}

impl Outbox {
    /// Writes to `output`; cancels `ended` when that cannot be written any more.
    pub(super) fn start(output: impl Output, ended: CancellationToken) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (finished, done) = watch::channel(false);
        let pen = Pen { output: Box::new(output), held: (Vec::new(), 0) };
        let shared = Arc::new(Shared { pen: Mutex::new(pen), waiting: AtomicUsize::new(0) });
        let own = shared.clone();
        let write = move || {
            if let Err(error) = own.write(receiver) {
                tracing::debug!(%error, "the client does not read any more");
                ended.cancel();
            }
            let _ = finished.send(true);
        };
        std::thread::Builder::new().name("haft-output".into()).spawn(write)?;
        Ok(Self { shared, sender: Some(sender), done })
    }

    /// Posts a message; waits where too many are waiting.
    pub(super) async fn post(&self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        self.send(line(message)?).await
    }

    /// The same of an answer that may be held back while its thread makes the next of `ahead` calls: a
    /// client that has asked for so much is woken once for a few answers. Returns what has to wait.
    pub(super) fn hold(&self, message: &ServerJsonRpcMessage, ahead: usize) -> io::Result<Option<Vec<u8>>> {
        let line = line(message)?;
        Ok(if self.shared.hold(&line, ahead) { None } else { Some(line) })
    }

    /// Writes what is held back.
    pub(super) fn let_go(&self) {
        // Whoever else has the pen writes it.
        let is_left = |mut pen: MutexGuard<'_, Pen>| pen.held.1 > 0 && !pen.write_at_once(&[]);
        if self.shared.pen().is_some_and(is_left)
            && let Some(sender) = &self.sender
        {
            // The thread will; also where it has so much to do that this is not heard.
            self.shared.waiting.fetch_add(1, Ordering::SeqCst);
            if sender.try_send(Vec::new()).is_err() {
                self.shared.waiting.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Posts a line; waits where too many are waiting.
    pub(super) async fn send(&self, line: Vec<u8>) -> io::Result<()> {
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the client does not read any more");
        let sender = self.sender.as_ref().ok_or_else(gone)?;
        if self.shared.write_at_once(&line) {
            return Ok(());
        }
        self.shared.waiting.fetch_add(1, Ordering::SeqCst);
        sender.send(line).await.map_err(|_| gone())
    }

    /// The same, for somebody who may outlive it.
    pub(super) fn downgrade(&self) -> WeakOutbox {
        WeakOutbox(self.shared.clone(), self.sender.as_ref().map(mpsc::Sender::downgrade), self.done.clone())
    }

    /// Writes what was posted, for a while, and posts nothing more.
    pub(super) async fn close(&mut self) {
        self.sender = None;
        let _ = tokio::time::timeout(FLUSH, self.done.wait_for(|done| *done)).await;
    }
}

impl WeakOutbox {
    /// The outbox, unless it was closed.
    pub(super) fn upgrade(&self) -> Option<Outbox> {
        let sender = self.1.as_ref()?.upgrade()?;
        Some(Outbox { shared: self.0.clone(), sender: Some(sender), done: self.2.clone() })
    }
}

/// A message as a line.
fn line(message: &ServerJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

impl Shared {
    /// Writes a line if nobody has to wait for it: nothing waits before it, and the client takes it. An
    /// error is left to the thread, which meets it too.
    fn write_at_once(&self, line: &[u8]) -> bool {
        self.first().is_some_and(|mut pen| pen.write_at_once(line))
    }

    /// Holds a line back if fewer are than calls are `ahead`, else writes it with them.
    fn hold(&self, line: &[u8], ahead: usize) -> bool {
        self.first().is_some_and(|mut pen| pen.hold(line, ahead) || pen.write_at_once(line))
    }

    /// The pen for somebody before whom nothing waits.
    fn first(&self) -> Option<MutexGuard<'_, Pen>> {
        self.pen().filter(|_| self.waiting.load(Ordering::SeqCst) == 0)
    }

    /// The pen, unless somebody has it.
    fn pen(&self) -> Option<MutexGuard<'_, Pen>> {
        match self.pen.try_lock() {
            Ok(pen) => Some(pen),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn write(&self, mut receiver: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
        while let Some(line) = receiver.blocking_recv() {
            let mut pen = self.pen.lock().unwrap_or_else(PoisonError::into_inner);
            let written = pen.write(&line).and_then(|()| pen.output.flush());
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            written?;
        }
        // Nobody is left who would let go of it.
        self.pen.lock().unwrap_or_else(PoisonError::into_inner).write(&[])
    }
}

impl Pen {
    fn hold(&mut self, line: &[u8], ahead: usize) -> bool {
        let (held, count) = &mut self.held;
        let is_held = *count < ahead && held.len() + line.len() <= AT_ONCE;
        if is_held {
            held.extend_from_slice(line);
            *count += 1;
        }
        is_held
    }

    /// Writes a line and what is held before it, if the client takes them at once.
    fn write_at_once(&mut self, line: &[u8]) -> bool {
        let fits = self.held.0.len() + line.len() <= AT_ONCE;
        (fits || self.put(&[])) && self.put(line)
    }

    fn put(&mut self, line: &[u8]) -> bool {
        self.held.0.len() + line.len() <= AT_ONCE && self.output.is_ready() && self.write(line).is_ok()
    }

    /// Writes a line and what is held before it. That stays where it cannot be written, so that the thread
    /// meets the error too.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let (held, count) = &mut self.held;
        if held.is_empty() {
            return self.output.write_all(line);
        }
        let (size, is_short) = (held.len(), line.len() <= AT_ONCE);
        if is_short {
            held.extend_from_slice(line);
        }
        if let Err(error) = self.output.write_all(held) {
            held.truncate(size);
            return Err(error);
        }
        held.clear();
        *count = 0;
        if is_short { Ok(()) } else { self.output.write_all(line) }
    }
}
