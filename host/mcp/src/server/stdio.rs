//! Serves one client on standard input and output until it hangs up. Requests read right before that are answered
//! first; other running calls are stopped.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio_util::sync::CancellationToken;

use super::handler::ServerShared;
use super::snapshot::{PATIENCE, ToolSnapshots};
use super::stdio_transport::{Hangup, StdioClient, StdioService, StdioTransport};
pub use super::stdio_transport::{Input, Output};
use haft_core::trace::Wire;

/// How long answers may take to what was asked right before standard input ended: as long as plugins that
/// were never seen before are waited for, and two seconds for the call.
const ANSWERS: Duration = PATIENCE.saturating_add(Duration::from_secs(2));

/// How long calls may go on when the client has hung up and has asked nothing right before.
const LAST_WORDS: Duration = Duration::from_millis(10);

/// How long stopped calls may take to be written to the journal.
const NOTING: Duration = Duration::from_millis(20);

/// How long answers may take to be written when nothing more is to come. The transport stops earlier where the
/// client does not read.
const FLUSH: Duration = Duration::from_secs(30);

/// How long calls may go on when haft is asked to end. Shorter than the ten seconds that service
/// managers and containers wait before they kill.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// The caller id of the client: the process that starts haft.
const CALLER: &str = "standard streams";

/// Serves `snapshots` to the client at `input` and `output` until it hangs up or `stop` is cancelled.
pub async fn serve(
    snapshots: ToolSnapshots,
    input: impl Input,
    output: impl Output,
    stop: CancellationToken,
) -> io::Result<()> {
    let (shared, hangup) = (ServerShared::new(snapshots, CALLER, Wire::Streams), Hangup::default());
    let (calls, client) = (shared.calls.clone(), Arc::new(StdioClient::new(shared.handler())));
    let lines = StdioTransport::new(input, output, Arc::downgrade(&client), (&hangup, stop.clone()))?;
    let mut serving = std::pin::pin!(tokio::spawn(converse(StdioService(client), lines)));
    let flush = tokio::select! {
        served = &mut serving => return served.map_err(io::Error::other)?,
        flush = ending(&hangup, &stop) => flush,
    };
    // What lasts, or takes too long, ends and says so.
    calls.close();
    calls.wait_until_idle(NOTING).await;
    let _ = tokio::time::timeout(flush, serving).await;
    Ok(())
}

/// Ends when serving should, and says how long that may take to write what there is.
async fn ending(hangup: &Hangup, stop: &CancellationToken) -> Duration {
    tokio::select! {
        () = hangup.ended() => last_words(hangup, stop).await,
        () = stop.cancelled() => tokio::time::sleep(GRACE).await,
    }
    if hangup.is_waiting() { FLUSH } else { NOTING }
}

/// Ends when the requests that came right before the end of standard input are answered, or have had the time
/// for it.
async fn last_words(hangup: &Hangup, stop: &CancellationToken) {
    let patience = if hangup.is_waiting() { ANSWERS } else { LAST_WORDS };
    tokio::select! {
        _ = tokio::time::timeout(patience, hangup.answered()) => {}
        () = hangup.client_gone() => {}
        // A client that has hung up and sends a signal does not wait.
        () = stop.cancelled() => {}
    }
}

async fn converse(service: StdioService, lines: StdioTransport) -> io::Result<()> {
    // On the heap: it has room for the largest request.
    match Box::pin(service.serve(lines)).await {
        Ok(running) => running.waiting().await.map(|_| ()).map_err(io::Error::other),
        // A client that connects and leaves is no failure.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}
