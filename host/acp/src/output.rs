//! Writes messages from a queue on a thread, in order, one a line. Every message is redacted. Posting never waits:
//! an editor that leaves [`MAX_UNWRITTEN`] bytes unread is considered gone.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_client_protocol_schema::v1::RequestId;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use haft_core::scan::Scan;
use haft_core::secret::Redactor;
use haft_core::sync::Lock;

/// The maximum size of a message in bytes: a prompt with some pictures, in base64.
pub(crate) const MAX_LINE: usize = 16 << 20;

/// The maximum number of messages that are read and not yet handled. An editor that sends more waits.
const QUEUE: usize = 16;

/// The maximum number of unwritten bytes. An editor that leaves more unread is considered hung.
pub(crate) const MAX_UNWRITTEN: usize = 32 << 20;

/// The maximum number of waiting bytes before deferrable output waits too: the replay of a conversation, the next
/// prompt.
pub(crate) const ROOM: usize = 1 << 20;

/// Time limit for the editor to read one more of the last messages.
const FLUSH: Duration = Duration::from_secs(1);

/// The memory of a queued message beside its bytes.
const OVERHEAD: usize = 128;

/// The queue of messages. Clones post to one editor.
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
                tracing::debug!(%error, "the editor stopped reading");
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
            tracing::warn!("the editor has {MAX_UNWRITTEN} bytes unread; the connection is closed");
            shared.gone.cancel();
        }
        let sent = !is_too_much && shared.sender.lock().as_ref().is_some_and(|to| to.send(line).is_ok());
        if !sent {
            shared.unwritten.bytes.fetch_sub(size, Ordering::SeqCst);
        }
    }

    /// Waits until the editor has read most of the queue, or has disconnected.
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

// Reads the lines of the editor on a thread. Stores one line at a time, and only the id of a line that is too
// long.

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line that is not empty, without its end.
    Whole(Vec<u8>),
    /// A line that exceeds the limit; its id, if it is a request.
    TooLong(Option<RequestId>),
}

/// Starts reading. The channel closes at the end of the input.
pub(crate) fn start(input: impl Read + Send + 'static) -> io::Result<mpsc::Receiver<Line>> {
    let (sender, lines) = mpsc::channel(QUEUE);
    let read = move || {
        let mut input = BufReader::new(input);
        loop {
            match next(&mut input) {
                Ok(Some(line)) => {
                    // The receiver was dropped.
                    if sender.blocking_send(line).is_err() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot read from standard input");
                    return;
                }
            }
        }
    };
    std::thread::Builder::new().name("haft-input".into()).spawn(read)?;
    Ok(lines)
}

/// Returns the next line that is not empty.
fn next(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    loop {
        let taken = input.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
        if taken == 0 {
            return Ok(None);
        }
        if line.len() > MAX_LINE {
            return Ok(Some(Line::TooLong(Scan::id_of_long(input, line)?)));
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            return Ok(Some(Line::Whole(text.to_vec())));
        }
        line.clear();
    }
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
    async fn no_secret_is_written() {
        let redactor = Redactor::default();
        redactor.add([&SecretString::from("sk-\"4711\"-0815-2342")]);
        let (mut read, write) = io::pipe().unwrap();
        let outbox = Outbox::start(write, redactor, CancellationToken::new()).unwrap();
        outbox.post(json!({ "a": ["it is sk-\"4711\"-0815-2342"] }));
        outbox.close().await;
        drop(outbox);
        let mut text = String::new();
        Read::read_to_string(&mut read, &mut text).unwrap();
        assert_eq!(text, "{\"a\":[\"it is ***\"]}\n");
    }

    #[test]
    fn a_line_too_long_leaves_its_id_and_the_next_line() {
        let mut text = br#"{"jsonrpc":"2.0","id":7,"method":"x","params":""#.to_vec();
        text.resize(MAX_LINE + 100, b'a');
        text.extend_from_slice(b"\"}\n\n  \n{\"id\":8}\r\nhalf");
        let mut input = text.as_slice();
        let mut lines = Vec::new();
        while let Some(line) = next(&mut input).unwrap() {
            lines.push(line);
        }
        let whole = |text: &str| Line::Whole(text.into());
        assert_eq!(lines, [Line::TooLong(Some(RequestId::Number(7))), whole("{\"id\":8}"), whole("half")]);
    }
}
