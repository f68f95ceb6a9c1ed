//! The stream of live updates to one browser, as server-sent events.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use hyper::body::{Body, Frame};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast, mpsc, watch};

use crate::desk::Shown;
use crate::live::Live;

/// The maximum number of events queued for a browser; while it is full, updates are dropped.
const WAITING: usize = 4;

/// How long a browser may read nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// The interval of messages that detect a lost browser.
const BEAT: Duration = Duration::from_secs(15);

/// The body of the response. While it exists, a browser shows the page.
pub(super) struct Events {
    receiver: mpsc::Receiver<Bytes>,
    _shown: Shown,
    _room: OwnedSemaphorePermit,
}

impl Events {
    /// Returns the events from now on.
    pub(super) fn of(live: &Live, shown: Shown, room: OwnedSemaphorePermit) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(tell(live.rows()?, live.questions(), sender));
        Ok(Self { receiver, _shown: shown, _room: room })
    }
}

/// Sends events until the browser is gone or does not read.
async fn tell(
    mut rows: broadcast::Receiver<Bytes>,
    mut questions: watch::Receiver<Bytes>,
    sender: mpsc::Sender<Bytes>,
) {
    // Questions that wait already are sent first.
    questions.mark_changed();
    loop {
        let next = tokio::select! {
            biased;
            () = sender.closed() => return,
            changed = questions.changed() => {
                if changed.is_err() {
                    return;
                }
                event("waiting", &questions.borrow_and_update())
            }
            batch = rows.recv() => match batch {
                Ok(batch) => event("rows", &batch),
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            },
            () = tokio::time::sleep(BEAT) => Bytes::from_static(b": still here\n\n"),
        };
        let sent = tokio::time::timeout(PATIENCE, sender.send(next)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

/// Returns one event. JSON on one line has no line ends.
fn event(name: &str, data: &[u8]) -> Bytes {
    let mut text = BytesMut::with_capacity(name.len() + data.len() + 16);
    for part in [b"event: ", name.as_bytes(), b"\ndata: ", data, b"\n\n"] {
        text.put_slice(part);
    }
    text.freeze()
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.receiver.poll_recv(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
    }
}
