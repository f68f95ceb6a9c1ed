//! Streams and futures, as arguments and as results. An argument is known before the call: its stream ends after
//! its items, its future is resolved. A result is awaited; the items of a stream are reported as they arrive, and
//! the complete list is the answer, up to the result limit.
//!
//! wasmtime reads and writes items as Rust types, which are fixed at compile time. Items can therefore be numbers,
//! strings, characters, booleans and bytes (`item`), and no records or variants.

mod collect;
mod item;
mod received;

use wasmtime::Store;
use wasmtime::component::{FutureReader, StreamReader, Val};

use self::item::{Item, with_item};
use self::received::Received;
use super::answer;
use super::encode::Mismatch;
use super::model::{Field, Later, Refusal, Streamed, Type};
use crate::contract::answer::Output;
use crate::instance::state::GuestState;
use haft_core::tool::ToolError;

/// The final answer of a function, or its error.
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
///
/// # Errors
/// The guest trapped, was stopped, or sends more than `most` bytes.
pub(super) async fn receive(
    store: &mut Store<GuestState>,
    streamed: &Streamed,
    returned: Val,
    most: u64,
) -> wasmtime::Result<Answer> {
    let value = match (&streamed.refusal, returned) {
        (Refusal::Never, value) => value,
        (Refusal::Error(_), Val::Result(Ok(Some(value)))) => *value,
        (Refusal::Error(error), Val::Result(Err(value))) => {
            return Ok(Err(answer::failure(error.as_ref(), value)?));
        }
        _ => return Err(Mismatch.into()),
    };
    match (&streamed.what, value) {
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
            let value = with_item!(item, T => collect::future::<T>(store, future).await?.into_val());
            Ok(Ok(answer::from_value(item, &value)?))
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
    with_item!(item, T => collect::stream::<T>(store, stream, most).await)
}

/// Returns the end of a stream, by the future of a result beside it; the error is a text, or nothing.
async fn end_of(
    store: &mut Store<GuestState>,
    error: Option<&Type>,
    end: Val,
) -> wasmtime::Result<Result<(), String>> {
    Ok(match error {
        Some(_) => collect::future::<Result<(), String>>(store, end).await?,
        None => collect::future::<Result<(), ()>>(store, end).await?.map_err(|()| answer::FAILED.to_owned()),
    })
}
