//! Writes messages from a queue on a thread, in order, one a line. Every message is redacted. Posting never waits:
//! an editor that leaves [`MAX_UNWRITTEN`] bytes unread is considered gone.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::bounds::{FLUSH, MAX_UNWRITTEN, ROOM};
use haft_core::secret::Redactor;
use haft_core::sync::Lock;

/// The memory of a queued message beside its bytes.
const OVERHEAD: usize = 128;

/// The queue of messages. Clones post to the same editor.
#[derive(Clone)]
pub(crate) struct Outbox(Arc<Shared>);

struct Shared {
    sender: Lock<Option<mpsc::UnboundedSender<Vec<u8>>>>,
    unwritten: Arc<Unwritten>,
    redactor: Redactor,
    gone: CancellationToken,
    done: watch::Receiver<bool>,
}

/// The number of queued bytes, including the overhead of each message.
#[derive(Default)]
struct Unwritten {
    bytes: AtomicUsize,
    fewer: Notify,
}

impl Outbox {
    /// Writes to `output`. Cancels `gone` when the output fails.
    pub(crate) fn start(
        output: impl Write + Send + 'static,
        redactor: Redactor,
        gone: CancellationToken,
    ) -> io::Result<Self> {
        let (sender, messages) = mpsc::unbounded_channel();
        let (finished, done) = watch::channel(false);
        let unwritten = Arc::<Unwritten>::default();
        let (waiting, over) = (unwritten.clone(), gone.clone());
        let write = move || {
            if let Err(error) = write(output, messages, &waiting) {
                tracing::debug!(%error, "the editor does not read any more");
                over.cancel();
            }
            let _ = finished.send(true);
        };
        std::thread::Builder::new().name("haft-output".into()).spawn(write)?;
        let sender = Lock::new(Some(sender));
        Ok(Self(Arc::new(Shared { sender, unwritten, redactor, gone, done })))
    }

    /// Queues a message, without waiting.
    pub(crate) fn post(&self, mut message: Value) {
        let shared = &*self.0;
        shared.redactor.clean(&mut message);
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        let size = line.len() + OVERHEAD;
        let before = shared.unwritten.bytes.fetch_add(size, Ordering::SeqCst);
        let is_too_much = before > MAX_UNWRITTEN;
        if is_too_much {
            tracing::warn!("the editor has left {MAX_UNWRITTEN} bytes unread: it is taken for gone");
            shared.gone.cancel();
        }
        let sent = !is_too_much && shared.sender.lock().as_ref().is_some_and(|to| to.send(line).is_ok());
        if !sent {
            shared.unwritten.bytes.fetch_sub(size, Ordering::SeqCst);
        }
    }

    /// Waits until the editor has read most of the queue, or is gone.
    pub(crate) async fn room(&self) {
        let Shared { unwritten, gone, .. } = &*self.0;
        loop {
            // Registered before the check, so that no notification is missed.
            let fewer = unwritten.fewer.notified();
            if unwritten.bytes.load(Ordering::SeqCst) <= ROOM {
                return;
            }
            tokio::select! { () = fewer => {} () = gone.cancelled() => return }
        }
    }

    /// Closes the queue, and writes the rest as long as the editor reads it.
    pub(crate) async fn close(&self) {
        *self.0.sender.lock() = None;
        let unwritten = || self.0.unwritten.bytes.load(Ordering::SeqCst);
        let mut last = unwritten();
        while tokio::time::timeout(FLUSH, self.0.done.clone().wait_for(|done| *done)).await.is_err() {
            if unwritten() >= last {
                return;
            }
            last = unwritten();
        }
    }
}

fn write(
    mut output: impl Write,
    mut messages: mpsc::UnboundedReceiver<Vec<u8>>,
    unwritten: &Unwritten,
) -> io::Result<()> {
    while let Some(line) = messages.blocking_recv() {
        let written = output.write_all(&line).and_then(|()| output.flush());
        unwritten.bytes.fetch_sub(line.len() + OVERHEAD, Ordering::SeqCst);
        unwritten.fewer.notify_waiters();
        written?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as blocking;

    use secrecy::SecretString;
    use serde_json::json;

    use super::*;

    /// An editor that reads on command.
    struct Slow(blocking::Receiver<()>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn an_editor_that_reads_nothing_is_gone_in_the_end_and_nothing_grows() {
        let (_read, reads) = blocking::channel();
        let gone = CancellationToken::new();
        let outbox = Outbox::start(Slow(reads), Redactor::default(), gone.clone()).unwrap();
        let large = "x".repeat(1 << 20);
        for _ in 0..100 {
            outbox.post(json!(large));
        }
        assert!(gone.is_cancelled());
        let held = outbox.0.unwritten.bytes.load(Ordering::SeqCst);
        assert!(held <= MAX_UNWRITTEN + (2 << 20), "{held}");
        // Waiting for room ends too.
        outbox.room().await;
    }

    /// CL04: also if the JSON form of a secret differs from the secret.
    #[tokio::test]
    async fn cl04_no_secret_is_written() {
        let redactor = Redactor::default();
        redactor.add([&SecretString::from("sk-\"4711\"-0815-2342")]);
        let (mut read, write) = io::pipe().unwrap();
        let outbox = Outbox::start(write, redactor, CancellationToken::new()).unwrap();
        outbox.post(json!({ "a": ["it is sk-\"4711\"-0815-2342"] }));
        outbox.close().await;
        drop(outbox);
        let mut text = String::new();
        io::Read::read_to_string(&mut read, &mut text).unwrap();
        assert_eq!(text, "{\"a\":[\"it is ***\"]}\n");
    }
}
