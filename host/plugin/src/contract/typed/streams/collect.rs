//! Takes what comes through a stream or a future, until it ends or is too much.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use wasmtime::component::{ComponentType, FutureConsumer, Lift, Source, StreamConsumer, StreamResult, Val};
use wasmtime::{AsContextMut, Store, StoreContextMut};

use super::super::encode::Mismatch;
use super::item::Item;
use super::partial::Teller;
use super::received::Received;
use crate::failure::TooLong;
use crate::instance::state::GuestState;
use haft_core::sync::Lock;

/// Everything that comes through a stream, told while it comes.
pub(super) async fn stream<T: Item>(
    store: &mut Store<GuestState>,
    stream: Val,
    most: u64,
) -> wasmtime::Result<Received> {
    let Val::Stream(stream) = stream else { return Err(Mismatch.into()) };
    let (sender, ended) = oneshot::channel();
    let received: Arc<Lock<Received>> = Arc::default();
    let collector = Collector::<T> {
        received: received.clone(),
        teller: Teller::default(),
        taken: Vec::new(),
        most,
        _alive: sender,
    };
    stream.try_into_stream_reader::<T>()?.pipe(&mut *store, collector)?;
    // The collector is dropped when nothing more comes.
    store.run_concurrent(async |_| ended.await).await?.ok();
    let received = std::mem::take(&mut *received.lock());
    if received.size() > most { Err(TooLong(most).into()) } else { Ok(received) }
}

/// The value of a future.
pub(super) async fn future<T>(store: &mut Store<GuestState>, future: Val) -> wasmtime::Result<T>
where
    T: ComponentType + Lift + Send + Sync + Unpin + 'static,
{
    let Val::Future(future) = future else { return Err(Mismatch.into()) };
    let (sender, receiver) = oneshot::channel();
    future.try_into_future_reader::<T>()?.pipe(&mut *store, Awaiting(Some(sender)))?;
    let value = store.run_concurrent(async |_| receiver.await).await?;
    value.map_err(|_| wasmtime::Error::msg("a future ended without a value"))
}

struct Collector<T> {
    received: Arc<Lock<Received>>,
    teller: Teller,
    taken: Vec<T>,
    most: u64,
    /// Dropped with the collector, which ends the wait for it.
    _alive: oneshot::Sender<()>,
}

impl<T: Item> StreamConsumer<GuestState> for Collector<T> {
    type Item = T;

    fn poll_consume(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: StoreContextMut<'_, GuestState>,
        mut source: Source<'_, T>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let this = self.get_mut();
        this.taken.reserve_exact(T::AT_ONCE);
        source.read(store.as_context_mut(), &mut this.taken)?;
        if this.taken.is_empty() && finish {
            return Poll::Ready(Ok(StreamResult::Cancelled));
        }
        let mut received = this.received.lock();
        for item in this.taken.drain(..) {
            received.add_cost(T::COST);
            item.add_to(&mut received);
        }
        this.teller.tell(&store.data().shared.call, &received);
        let is_over = received.size() > this.most;
        Poll::Ready(Ok(if is_over { StreamResult::Dropped } else { StreamResult::Completed }))
    }
}

struct Awaiting<T>(Option<oneshot::Sender<T>>);

impl<T: Lift + Send + Sync + Unpin + 'static> FutureConsumer<GuestState> for Awaiting<T> {
    type Item = T;

    fn poll_consume(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'_, GuestState>,
        mut source: Source<'_, T>,
        _: bool,
    ) -> Poll<wasmtime::Result<()>> {
        let mut value = None;
        source.read(store, &mut value)?;
        if let (Some(value), Some(sender)) = (value, self.get_mut().0.take()) {
            // Nobody asks where the call was cancelled.
            _ = sender.send(value);
        }
        Poll::Ready(Ok(()))
    }
}
