//! The number of running calls, so that shutting down can wait for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Calls of all clients of a server. Clones count together.
#[derive(Clone, Debug)]
pub(super) struct RunningCalls(Arc<CallsState>);

#[derive(Debug)]
struct CallsState {
    running: watch::Sender<usize>,
    closing: CancellationToken,
}

/// One call under way. Dropped, it is over.
#[derive(Debug)]
pub(super) struct CallGuard(Arc<CallsState>);

impl Default for RunningCalls {
    fn default() -> Self {
        let (running, closing) = (watch::Sender::new(0), CancellationToken::new());
        Self(Arc::new(CallsState { running, closing }))
    }
}

impl RunningCalls {
    /// A call begins.
    pub(super) fn begin(&self) -> CallGuard {
        self.0.running.send_modify(|count| *count += 1);
        CallGuard(self.0.clone())
    }

    /// Whether no call is under way.
    pub(super) fn are_idle(&self) -> bool {
        *self.0.running.borrow() == 0
    }

    /// Ends when no call is under way, or after `most`.
    pub(super) async fn wait_until_idle(&self, most: Duration) {
        let mut running = self.0.running.subscribe();
        let idle = running.wait_for(|count| *count == 0);
        let _ = tokio::time::timeout(most, idle).await;
    }

    /// Stops every call, those to come too.
    pub(super) fn close(&self) {
        self.0.closing.cancel();
    }

    /// Ends when calls are to stop.
    pub(super) async fn closed(&self) {
        self.0.closing.cancelled().await;
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.0.running.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_ends_with_the_last_call() {
        let calls = RunningCalls::default();
        calls.wait_until_idle(Duration::from_millis(50)).await;
        let (first, second) = (calls.begin(), calls.begin());
        drop(first);
        let waiting = tokio::spawn({
            let calls = calls.clone();
            async move { calls.wait_until_idle(Duration::from_mins(1)).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn waiting_has_an_end() {
        let calls = RunningCalls::default();
        let _call = calls.begin();
        calls.wait_until_idle(Duration::from_millis(50)).await;
    }
}
