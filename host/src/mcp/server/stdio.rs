//! Serving one client on standard input and output. Ends when the client hangs up, whatever is
//! running then: what nobody waits for is stopped, not finished.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio_util::sync::CancellationToken;

use super::handler::{Handler, Shared};
use super::lines::Lines;
pub use super::lines::Output;
use super::offer::Offers;

/// How long a call may go on when the client has hung up, from its beginning: enough for the answers to
/// what somebody wrote into a pipe at once. One that has taken longer by then is stopped.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// How long what was read last may take to become a call.
const LEAST: Duration = Duration::from_millis(10);

/// How long stopped calls may take to be noted down.
const NOTING: Duration = Duration::from_millis(20);

/// How long calls may go on when haft is asked to end. Shorter than the ten seconds that service
/// managers and containers wait before they kill.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// Who the client is: whoever starts haft.
const CALLER: &str = "standard streams";

/// Serves `offers` to the client at `input` and `output` until it hangs up or `stop` is cancelled.
pub async fn serve(
    offers: Offers,
    input: impl Read + Send + 'static,
    output: impl Output,
    stop: CancellationToken,
) -> io::Result<()> {
    let (shared, ended) = (Shared::new(offers, CALLER), CancellationToken::new());
    let (calls, handler) = (shared.calls.clone(), Arc::new(shared.handler()));
    let lines = Lines::new(input, output, Arc::downgrade(&handler), (&ended, stop.clone()))?;
    let serving = tokio::spawn(converse(handler, lines));
    let mut serving = std::pin::pin!(serving);
    let patience = tokio::select! {
        served = &mut serving => return served.map_err(io::Error::other)?,
        () = ended.cancelled() => last_words(calls.age()),
        () = stop.cancelled() => GRACE,
    };
    if tokio::time::timeout(patience, serving).await.is_err() {
        calls.close();
        calls.over(NOTING).await;
    }
    Ok(())
}

/// How long to wait for answers where the last call has been there for `age`.
fn last_words(age: Option<Duration>) -> Duration {
    LAST_WORDS.saturating_sub(age.unwrap_or_default()).max(LEAST)
}

async fn converse(handler: Arc<Handler>, lines: Lines) -> io::Result<()> {
    match handler.serve(lines).await {
        Ok(running) => running.waiting().await.map(|_| ()).map_err(io::Error::other),
        // Whoever only looked what is here is no failure.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_asked_is_answered_and_what_goes_on_is_not_waited_for() {
        assert_eq!(last_words(None), LAST_WORDS);
        assert_eq!(last_words(Some(LAST_WORDS / 2)), LAST_WORDS / 2);
        assert_eq!(last_words(Some(Duration::from_mins(1))), LEAST);
    }
}
