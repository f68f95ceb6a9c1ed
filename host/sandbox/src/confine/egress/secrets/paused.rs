//! A stream for a child, without secrets, that may pause at a byte with which a secret begins. The child may have to
//! answer such a byte before more arrives.

use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use haft_core::secret::{ByteStream, Redactor};

/// Time for which a possible beginning of a secret is withheld at the end of what has arrived, if it may be an ordinary
/// word.
const WITHHELD: Duration = Duration::from_millis(20);

pub(super) struct Paused {
    stream: ByteStream,
    /// The end of the time; `None` if nothing is to be released.
    end: Option<Pin<Box<Sleep>>>,
}

impl Paused {
    pub(super) fn new(redactor: Redactor, keeps_length: bool) -> Self {
        Self { stream: ByteStream::new(redactor, keeps_length), end: None }
    }

    /// Returns the bytes that are no secret so far.
    pub(super) fn push<'p>(&mut self, piece: &'p [u8]) -> Cow<'p, [u8]> {
        let clean = self.stream.push(piece);
        self.end = self.stream.withholds_word().then(|| Box::pin(sleep(WITHHELD)));
        clean
    }

    /// Returns withheld bytes when nothing has arrived for a while. Waits for ever if there are none to be released.
    pub(super) fn poll_release(&mut self, context: &mut Context<'_>) -> Poll<Vec<u8>> {
        let Some(end) = &mut self.end else { return Poll::Pending };
        ready!(end.as_mut().poll(context));
        self.end = None;
        Poll::Ready(self.stream.release())
    }

    /// Returns the withheld bytes, at the end.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.end = None;
        self.stream.finish()
    }

    pub(super) fn keeps_length(&self) -> bool {
        self.stream.keeps_length()
    }
}
