//! Reads the items of a stream or a future, until its end or the limit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use wasmtime::component::{ComponentType, FutureConsumer, Lift, Source, StreamConsumer, StreamResult, Val};
use wasmtime::{AsContextMut, Store, StoreContextMut};

use super::item::Item;
use super::received::Received;
use crate::call::Call;
use crate::contract::typed::encode::Mismatch;
use crate::failure::TooLong;
use crate::instance::state::GuestState;
use haft_core::event::Event;
use haft_core::sync::Lock;

/// Collects all items of a stream, and reports them as they arrive.
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
    // The collector is dropped at the end of the stream.
    store.run_concurrent(async |_| ended.await).await?.ok();
    let received = std::mem::take(&mut *received.lock());
    if received.size() > most { Err(TooLong(most).into()) } else { Ok(received) }
}

/// Returns the value of a future.
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
            // The receiver of a cancelled call is dropped.
            _ = sender.send(value);
        }
        Poll::Ready(Ok(()))
    }
}

// Reports the received text of a stream, without splitting characters.

/// Maximum number of reported pieces of one answer.
const MAX_PIECES: usize = 10_000;

/// The reported part of a stream.
#[derive(Default)]
pub(super) struct Teller {
    bytes: usize,
    values: usize,
    pieces: usize,
    /// The data are not text: only their size is reported.
    is_binary: bool,
}

impl Teller {
    /// Reports new data.
    pub(super) fn tell(&mut self, call: &Call, received: &Received) {
        if self.pieces >= MAX_PIECES || !call.events.has_listener() {
            return;
        }
        let text = self.new_text(received.bytes()) + &self.new_values(received);
        if !text.is_empty() {
            self.pieces += 1;
            call.events.emit(|| Event::Partial { call: call.id.clone(), text });
        } else if self.is_binary {
            self.pieces += 1;
            #[expect(clippy::cast_precision_loss, reason = "a count for display")]
            let done = received.bytes().len() as f64;
            let (id, message) = (call.id.clone(), String::new());
            call.events.emit(|| Event::Progress { call: id, done, total: None, message });
        }
    }

    /// Returns the characters that are complete.
    fn new_text(&mut self, bytes: &[u8]) -> String {
        let new = bytes.get(self.bytes..).unwrap_or_default();
        let text = match str::from_utf8(new) {
            _ if self.is_binary => return String::new(),
            Ok(text) => text,
            Err(error) if error.error_len().is_some() => {
                self.is_binary = true;
                return String::new();
            }
            Err(error) => new
                .get(..error.valid_up_to())
                .and_then(|whole| str::from_utf8(whole).ok())
                .unwrap_or_default(),
        };
        self.bytes += text.len();
        text.to_owned()
    }

    /// Returns the new values, one a line.
    fn new_values(&mut self, received: &Received) -> String {
        let new = received.values().get(self.values..).unwrap_or_default();
        self.values += new.len();
        new.iter().map(|value| format!("{value}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_told_whole() {
        let mut teller = Teller::default();
        let bytes = "aü€b".as_bytes();
        let told: Vec<String> = (1..=bytes.len()).map(|length| teller.new_text(&bytes[..length])).collect();
        assert_eq!(told, ["a", "", "ü", "", "", "€", "b"]);
        assert_eq!(teller.new_text(b"a\xff"), "");
        let mut teller = Teller::default();
        assert_eq!((teller.new_text(b"a\xff"), teller.is_binary), (String::new(), true));
    }
}
