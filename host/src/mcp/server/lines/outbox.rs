//! The writing side: one thread writes message after message, each on a line of its own. A client
//! that does not read makes whoever posts wait, and nobody else.

use std::io::{self, Write};

use rmcp::model::ServerJsonRpcMessage;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Messages that wait to be written.
const QUEUE: usize = 64;

/// How long closing waits for what was posted. Whoever still reads takes it at once.
const FLUSH: std::time::Duration = std::time::Duration::from_secs(1);

/// Where messages are posted. Clones post to the same client.
#[derive(Clone)]
pub(super) struct Outbox {
    sender: Option<mpsc::Sender<Vec<u8>>>,
    done: watch::Receiver<bool>,
}

impl Outbox {
    /// Starts writing.
    pub(super) fn start(output: impl Write + Send + 'static, ended: CancellationToken) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (finished, done) = watch::channel(false);
        let write = move || {
            if let Err(error) = write(output, receiver) {
                tracing::debug!(%error, "the client does not read any more");
                ended.cancel();
            }
            let _ = finished.send(true);
        };
        std::thread::Builder::new().name("haft-output".into()).spawn(write)?;
        Ok(Self { sender: Some(sender), done })
    }

    /// Posts a message; waits where too many are waiting.
    pub(super) async fn post(&self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
        line.push(b'\n');
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the client does not read any more");
        self.sender.as_ref().ok_or_else(gone)?.send(line).await.map_err(|_| gone())
    }

    /// Writes what was posted, for a while, and posts nothing more.
    pub(super) async fn close(&mut self) {
        self.sender = None;
        let _ = tokio::time::timeout(FLUSH, self.done.wait_for(|done| *done)).await;
    }
}

fn write(mut output: impl Write, mut receiver: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(line) = receiver.blocking_recv() {
        output.write_all(&line)?;
        while let Ok(line) = receiver.try_recv() {
            output.write_all(&line)?;
        }
        output.flush()?;
    }
    Ok(())
}
