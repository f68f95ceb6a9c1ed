//! Serves one client on standard input and output, one JSON-RPC message a line, until it closes its input. Requests
//! read just before the close are answered first; other running calls are stopped.
//!
//! One thread reads and one writes, because both may block on a client. The reading thread starts every request and
//! handles every other message; haft's runtime continues the requests that do not end on that thread.

mod client;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use self::client::{Client, StdioLink};
pub use self::reader::Input;
pub use self::writer::Output;
use self::writer::Writer;
use super::handler::ServerShared;
use super::snapshot::{PATIENCE, ToolSnapshots};
use haft_core::trace::Wire;

/// Maximum time for answers to requests right before the end of standard input: the wait for new plugins, and two
/// seconds for the call.
const ANSWERS: Duration = PATIENCE.saturating_add(Duration::from_secs(2));

/// Time for running calls after the client has closed its input without a recent request.
const LAST_WORDS: Duration = Duration::from_millis(10);

/// Time limit for writing stopped calls to the journal.
const NOTING: Duration = Duration::from_millis(20);

/// Time limit for writing answers after the last one. The writer stops earlier if the client does not read.
const FLUSH: Duration = Duration::from_secs(30);

/// Maximum time for running calls and their answers when haft is to end. Shorter than the ten seconds that service
/// managers and containers wait before they kill.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// The longest pause between the requests of one burst, and between the last one and the end of standard input.
/// A client that closes standard input so soon has written all requests at once (`printf … | haft serve`) and
/// waits for the answers. A client that wants haft to end has paused for longer.
const RECENT: Duration = Duration::from_millis(250);

/// The caller id of the client: the process that starts haft.
const CALLER: &str = "standard streams";

/// The requests that a client writes without a pause.
#[derive(Debug, Default)]
struct Burst {
    /// The time at which the first request was read.
    first: Option<Instant>,
    /// The time at which haft was last ready to read. Time that haft needs for a request is not a pause of the
    /// client.
    ready: Option<Instant>,
}

/// The state of the client's pipes. Clones share it.
#[derive(Clone, Debug, Default)]
struct Hangup(Arc<HangupState>);

#[derive(Debug, Default)]
struct HangupState {
    /// The time at which the first awaited request was read, set if standard input ended with a [`Burst`].
    since: OnceLock<Instant>,
    /// Standard input has ended.
    ended: CancellationToken,
    /// Cancelled when the client no longer reads.
    client_gone: CancellationToken,
}

/// Serves `snapshots` to the client at `input` and `output` until it hangs up or `stop` is cancelled.
///
/// # Errors
/// No thread can be started.
pub async fn serve(
    snapshots: ToolSnapshots,
    input: impl Input,
    output: impl Output,
    stop: CancellationToken,
) -> io::Result<()> {
    let (shared, hangup) = (ServerShared::new(snapshots, CALLER, Wire::Streams), Hangup::default());
    let link = Arc::new(StdioLink::new(Writer::start(output, hangup.clone())?));
    let handler = Arc::new(shared.handler());
    let client = Client::new(handler.clone(), link.clone());
    reader::start(input, client, (hangup.clone(), stop.clone()))?;
    let flush = tokio::select! {
        flush = ending(&link, &hangup, &stop) => flush,
        never = link.tell_news(&handler) => match never {},
    };
    // Long requests end with an error.
    shared.calls.close();
    shared.calls.wait_until_idle(NOTING).await;
    let written = async {
        link.conversation.answered(|_| true).await;
        link.writer.close().await;
    };
    let _ = tokio::time::timeout(flush, written).await;
    Ok(())
}

/// Returns at the end of serving, with the time limit for the remaining output.
async fn ending(link: &StdioLink, hangup: &Hangup, stop: &CancellationToken) -> Duration {
    let answered = |since: Option<Instant>| {
        link.conversation.answered(move |open| !open.lasts && since.is_none_or(|since| open.since >= since))
    };
    tokio::select! {
        () = hangup.ended() => {}
        () = stop.cancelled() => {
            let begun = Instant::now();
            let _ = tokio::time::timeout(GRACE, answered(None)).await;
            return GRACE.saturating_sub(begun.elapsed()).max(NOTING);
        }
    }
    let (patience, flush) = if hangup.is_waiting() { (ANSWERS, FLUSH) } else { (LAST_WORDS, NOTING) };
    tokio::select! {
        _ = tokio::time::timeout(patience, answered(hangup.waited_for_since())) => {}
        () = hangup.client_gone() => {}
        // A client that has hung up and sends a signal does not wait.
        () = stop.cancelled() => {}
    }
    flush
}

impl Burst {
    /// Records that a request was read.
    fn request_was_read(&mut self) {
        let now = Instant::now();
        if self.first.is_none() || self.has_paused(now) {
            self.first = Some(now);
        }
    }

    /// Records that the read messages are passed on.
    fn is_ready(&mut self) {
        self.ready = Some(Instant::now());
    }

    /// Returns the beginning of the burst that ended with standard input; `None` if the client paused before.
    fn since(&self) -> Option<Instant> {
        self.first.filter(|_| !self.has_paused(Instant::now()))
    }

    fn has_paused(&self, now: Instant) -> bool {
        self.ready.is_some_and(|ready| now.duration_since(ready) > RECENT)
    }
}

impl Hangup {
    /// Records that standard input has ended, with or right after `burst`.
    fn input_has_ended(&self, burst: &Burst) {
        if let Some(since) = burst.since() {
            let _ = self.0.since.set(since);
        }
        self.0.ended.cancel();
    }

    /// Records that the client no longer reads.
    fn client_is_gone(&self) {
        self.0.client_gone.cancel();
        self.0.ended.cancel();
    }

    /// Returns whether the client waits for answers, once standard input has ended.
    fn is_waiting(&self) -> bool {
        self.0.since.get().is_some() && !self.0.client_gone.is_cancelled()
    }

    /// Returns the time of the first request that the client waits for, if any.
    fn waited_for_since(&self) -> Option<Instant> {
        self.0.since.get().copied()
    }

    /// Returns when standard input ends, or the client disconnects.
    async fn ended(&self) {
        self.0.ended.cancelled().await;
    }

    /// Ends when the client no longer reads.
    async fn client_gone(&self) {
        self.0.client_gone.cancelled().await;
    }
}
