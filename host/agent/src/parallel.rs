//! Waits for several things at once on one task. Refuses to start a task: what is dropped stops.

use std::pin::Pin;
use std::task::Poll;

/// Something to wait for.
pub(super) type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What all of `futures` come to, in their order.
pub(super) async fn together<T: Unpin>(futures: Vec<Waiting<'_, T>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.into_iter().map(|future| (Some(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut is_done = true;
        for (future, value) in &mut waiting {
            if let Some(running) = future {
                match running.as_mut().poll(context) {
                    Poll::Ready(ready) => {
                        *value = Some(ready);
                        *future = None;
                    }
                    Poll::Pending => is_done = false,
                }
            }
        }
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waiting.into_iter().filter_map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn all_are_waited_for_at_once_and_come_in_order() {
        let begun = Instant::now();
        let wait = |ms: u64| -> Waiting<'_, u64> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                ms
            })
        };
        assert_eq!(together(vec![wait(300), wait(10), wait(290)]).await, [300, 10, 290]);
        assert!(begun.elapsed() < Duration::from_millis(550));
        assert_eq!(together(Vec::<Waiting<'_, u64>>::new()).await, Vec::<u64>::new());
    }
}
