use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::*;
use haft_core::tool::Context;
use haft_sandbox::{BackendError, CommandOutcome, OutputSink, Piece};

/// Only a hanging test reaches this.
const HANG: Duration = Duration::from_mins(5);

/// A backend that only records that it was closed.
#[derive(Clone, Debug, Default)]
struct Still(Arc<AtomicBool>, Arc<Notify>);

impl Still {
    fn is_closed(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Backend for Still {
    fn summary(&self) -> String {
        "still".into()
    }

    fn confinement(&self) -> String {
        String::new()
    }

    async fn run(
        &self,
        _: &str,
        _: Duration,
        _: Arc<dyn OutputSink>,
        _: &Context<'_>,
    ) -> Result<CommandOutcome, BackendError> {
        Err(BackendError::Cancelled)
    }

    async fn read(&self, _: &str, _: u64, _: usize, _: &Context<'_>) -> Result<Piece, BackendError> {
        Err(BackendError::Cancelled)
    }

    async fn write(&self, _: &str, _: Vec<u8>, _: &Context<'_>) -> Result<(), BackendError> {
        Err(BackendError::Cancelled)
    }

    async fn close(&self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.notify_one();
    }
}

/// Adds a reading of a program with the backend `still`, and returns the backend that its tools hold.
fn read(running: &Running, still: &Still) -> Arc<dyn Backend> {
    let backend: Arc<dyn Backend> = Arc::new(still.clone());
    let parts = Parts { agents: Agents::default(), backend: Some(backend.clone()) };
    running.replace(Servers::default(), parts);
    backend
}

/// The resources of an earlier reading are closed only when no tool uses them; the others at the end.
#[tokio::test]
async fn what_calls_still_use_is_not_ended() {
    let (first, second, running) = (Still::default(), Still::default(), Running::default());
    let of_a_call = read(&running, &first);
    drop(read(&running, &second));
    // Enough turns for the first check.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!first.is_closed() && !second.is_closed(), "a call has the one, the other is the last");
    drop(of_a_call);
    tokio::time::timeout(HANG, first.1.notified()).await.unwrap();
    assert!(first.is_closed() && !second.is_closed());
    running.close().await;
    assert!(second.is_closed());
}

/// The end of haft waits for no call.
#[tokio::test]
async fn the_end_closes_what_calls_still_use() {
    let (first, second, running) = (Still::default(), Still::default(), Running::default());
    let of_calls = [read(&running, &first), read(&running, &second)];
    running.close().await;
    assert!(first.is_closed() && second.is_closed());
    drop(of_calls);
}
