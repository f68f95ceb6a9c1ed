//! The number of calls under way, so that whoever shuts a server down can wait for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Calls of all clients of a server. Clones count together.
#[derive(Clone, Debug)]
pub(super) struct Calls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    under_way: watch::Sender<usize>,
    closing: CancellationToken,
}

/// One call under way. Dropped, it is over.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Inner>);

impl Default for Calls {
    fn default() -> Self {
        let (under_way, closing) = (watch::Sender::new(0), CancellationToken::new());
        Self(Arc::new(Inner { under_way, closing }))
    }
}

impl Calls {
    /// A call begins.
    pub(super) fn begin(&self) -> UnderWay {
        self.0.under_way.send_modify(|count| *count += 1);
        UnderWay(self.0.clone())
    }

    /// Ends when no call is under way, or after `most`.
    pub(super) async fn over(&self, most: Duration) {
        let mut under_way = self.0.under_way.subscribe();
        let over = under_way.wait_for(|count| *count == 0);
        let _ = tokio::time::timeout(most, over).await;
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

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_ends_with_the_last_call() {
        let calls = Calls::default();
        calls.over(Duration::from_millis(50)).await;
        let (first, second) = (calls.begin(), calls.begin());
        drop(first);
        let waiting = tokio::spawn({
            let calls = calls.clone();
            async move { calls.over(Duration::from_mins(1)).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn waiting_has_an_end() {
        let calls = Calls::default();
        let _call = calls.begin();
        calls.over(Duration::from_millis(50)).await;
    }
}
