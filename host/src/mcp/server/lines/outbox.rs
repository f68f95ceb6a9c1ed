//! The writing side: messages are written one after the other, each on a line of its own. What the
//! client takes at once is written at once; the rest by a thread that waits for it. A client that does
//! not read makes whoever posts wait, and nobody else.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
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
    output: Mutex<Box<dyn Output>>,
    /// Messages that wait for the thread.
    waiting: AtomicUsize,
}

impl Outbox {
    /// Writes to `output`; cancels `ended` when that cannot be written any more.
    pub(super) fn start(output: impl Output, ended: CancellationToken) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (finished, done) = watch::channel(false);
        let shared = Arc::new(Shared { output: Mutex::new(Box::new(output)), waiting: AtomicUsize::new(0) });
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
        let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
        line.push(b'\n');
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

impl Shared {
    /// Writes a line if nobody has to wait for it: nothing waits before it, and the client takes it. An
    /// error is left to the thread, which meets it too.
    fn write_at_once(&self, line: &[u8]) -> bool {
        let mut output = match self.output.try_lock() {
            Ok(output) => output,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let is_first = self.waiting.load(Ordering::SeqCst) == 0;
        is_first && line.len() <= AT_ONCE && output.is_ready() && output.write_all(line).is_ok()
    }

    fn write(&self, mut receiver: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
        while let Some(line) = receiver.blocking_recv() {
            let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
            let written = output.write_all(&line).and_then(|()| output.flush());
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            written?;
        }
        Ok(())
    }
}
