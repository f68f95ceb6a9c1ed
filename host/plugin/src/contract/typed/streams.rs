//! Streams and futures, as arguments and as results. An argument is known before the call: its stream ends after
//! its items, its future is resolved. A result is awaited; the items of a stream are reported as they arrive, and
//! the complete list is the answer, up to the result limit.
//!
//! wasmtime reads and writes items as Rust types, which are fixed at compile time. Items can therefore be numbers,
//! strings, characters, booleans and bytes (`item`), and no records or variants.

mod item;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use wasmtime::component::{
    ComponentType, FutureConsumer, FutureReader, Lift, Source, StreamConsumer, StreamReader, StreamResult,
    Val,
};
use wasmtime::{AsContextMut, Store, StoreContextMut};

use self::item::{Item, Received, with_item};
use super::encode::{self, Mismatch};
use super::model::{Field, Later, Refusal, Type};
use crate::call::Call;
use crate::contract::guest::Output;
use crate::failure::TooLong;
use crate::instance::state::GuestState;
use haft_core::event::Event;
use haft_core::sync::Lock;
use haft_core::tool::ToolError;

type Answer = Result<Output, ToolError>;

/// Replaces the values of streams and futures by streams and futures.
pub(super) fn open(
    store: &mut Store<GuestState>,
    params: &[Field],
    arguments: &mut [Val],
) -> wasmtime::Result<()> {
    for (field, argument) in params.iter().zip(arguments) {
        let opened = match &field.ty {
            Type::Stream(item) => with_item!(item, T => stream::<T>(store, argument))?,
            Type::Future(item) => with_item!(item, T => future::<T>(store, argument))?,
            _ => continue,
        };
        *argument = opened;
    }
    Ok(())
}

fn stream<T: Item>(store: &mut Store<GuestState>, items: &mut Val) -> wasmtime::Result<Val> {
    let Val::List(items) = std::mem::replace(items, Val::Bool(false)) else { return Err(Mismatch.into()) };
    let items: Option<Vec<T>> = items.into_iter().map(T::from_val).collect();
    let reader = StreamReader::new(&mut *store, items.ok_or(Mismatch)?)?;
    Ok(Val::Stream(reader.try_into_stream_any(store)?))
}

fn future<T: Item>(store: &mut Store<GuestState>, item: &mut Val) -> wasmtime::Result<Val> {
    let item = T::from_val(std::mem::replace(item, Val::Bool(false))).ok_or(Mismatch)?;
    let reader = FutureReader::new(&mut *store, async move { wasmtime::error::Ok(item) })?;
    Ok(Val::Future(reader.try_into_future_any(store)?))
}

/// Waits for the answer behind `returned`.
/// Errors: The guest trapped, was stopped, or sends more than `most` bytes.
pub(super) async fn receive(
    store: &mut Store<GuestState>,
    (later, refusal): (&Later, &Refusal),
    returned: Val,
    most: u64,
) -> wasmtime::Result<Answer> {
    let value = match (refusal, returned) {
        (Refusal::Never, value) => value,
        (Refusal::Error(_), Val::Result(Ok(Some(value)))) => *value,
        (Refusal::Error(error), Val::Result(Err(value))) => {
            return Ok(Err(encode::failure(error.as_ref(), value)?));
        }
        _ => return Err(Mismatch.into()),
    };
    match (later, value) {
        (Later::Stream(item), stream) => {
            let received = stream_of(store, item, stream, most).await?;
            Ok(Ok(received.output(item)?))
        }
        (Later::StreamAndEnd(item, error), Val::Tuple(parts)) => {
            let [stream, end] = <[Val; 2]>::try_from(parts).map_err(|_| Mismatch)?;
            let received = stream_of(store, item, stream, most).await?;
            let ended = end_of(store, error.as_ref(), end).await?;
            Ok(match ended {
                Ok(()) => Ok(received.output(item)?),
                Err(message) => Err(received.failed(message)),
            })
        }
        (Later::Future(item), future) => {
            let value = with_item!(item, T => resolve::<T>(store, future).await?.into_val());
            Ok(Ok(encode::from_value(item, &value)?))
        }
        _ => Err(Mismatch.into()),
    }
}

async fn stream_of(
    store: &mut Store<GuestState>,
    item: &Type,
    stream: Val,
    most: u64,
) -> wasmtime::Result<Received> {
    with_item!(item, T => collect::<T>(store, stream, most).await)
}

/// Returns the end of a stream, by the future of a result beside it; the error is a text, or nothing.
async fn end_of(
    store: &mut Store<GuestState>,
    error: Option<&Type>,
    end: Val,
) -> wasmtime::Result<Result<(), String>> {
    Ok(match error {
        Some(_) => resolve::<Result<(), String>>(store, end).await?,
        None => resolve::<Result<(), ()>>(store, end).await?.map_err(|()| encode::FAILED.to_owned()),
    })
}

async fn collect<T: Item>(
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
    if received.size > most { Err(TooLong(most).into()) } else { Ok(received) }
}

async fn resolve<T>(store: &mut Store<GuestState>, future: Val) -> wasmtime::Result<T>
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
            received.size += T::COST;
            item.add_to(&mut received);
        }
        this.teller.tell(&store.data().shared.call, &received);
        let is_over = received.size > this.most;
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

/// Maximum number of reported pieces of one answer.
const MAX_PIECES: usize = 10_000;

/// The reported part of a stream.
#[derive(Default)]
struct Teller {
    bytes: usize,
    values: usize,
    pieces: usize,
    /// The data are not text: only their size is reported.
    is_binary: bool,
}

impl Teller {
    fn tell(&mut self, call: &Call, received: &Received) {
        if self.pieces >= MAX_PIECES || !call.events.has_listener() {
            return;
        }
        let text = self.new_text(&received.bytes) + &self.new_values(received);
        if !text.is_empty() {
            self.pieces += 1;
            call.events.emit(|| Event::Partial { call: call.id.clone(), text });
        } else if self.is_binary {
            self.pieces += 1;
            #[expect(clippy::cast_precision_loss, reason = "a count for display")]
            let done = received.bytes.len() as f64;
            let (id, message) = (call.id.clone(), String::new());
            call.events.emit(|| Event::Progress { call: id, done, total: None, message });
        }
    }

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

    fn new_values(&mut self, received: &Received) -> String {
        let new = received.values.get(self.values..).unwrap_or_default();
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
