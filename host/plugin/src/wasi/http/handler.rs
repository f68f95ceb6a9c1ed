//! Passes requests to a guest that serves HTTP by WASI 0.3 (`wasi:http/handler`), in process, as `incoming` does
//! for WASI 0.2.

use std::future::poll_fn;
use std::pin::pin;

use tokio::time::timeout;
use wasmtime::Store;
use wasmtime::component::Accessor;
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::p3::Request;
use wasmtime_wasi_http::p3::bindings::Service;

use super::incoming::{AfterAnswer, FINISH, NoAnswer, Post, ReadAnswer, read_answer};
use crate::instance::state::GuestState;

/// Passes `post` to a guest, and its response to `reader`.
///
/// # Errors
/// The guest trapped or was stopped before its answer was known, or gave no answer.
pub(crate) async fn exchange(
    store: &mut Store<GuestState>,
    guest: &Service,
    post: Post,
    reader: &mut impl ReadAnswer,
) -> wasmtime::Result<AfterAnswer> {
    let (request, _sent) = Request::from_http(store.data_mut().http().hooks, post.into_request()?);
    let mut is_known = false;
    let exchanged = store.run_concurrent(async |store| {
        let response = guest.handle(store, request).await?.map_err(NoAnswer::refused)?;
        let response = store.with(|access| response.into_http(access, async { Ok(()) }))?;
        let body = read_answer(response, reader).await?;
        is_known = true;
        // The reader is done; a guest that still writes gets an error.
        drop(body);
        wasmtime::error::Ok(finished(store).await)
    });
    match exchanged.await {
        Ok(after) => after,
        // A trap once the answer is known takes nothing from it.
        Err(_) if is_known => Ok(AfterAnswer::Spent),
        Err(trap) => Err(trap),
    }
}

/// Waits for the guest's remaining work, for at most [`FINISH`], and returns whether the guest can be called again.
async fn finished(store: &Accessor<GuestState>) -> AfterAnswer {
    let mut idle = pin!(poll_fn(|context| store.poll_no_interesting_tasks(context)));
    match timeout(FINISH, &mut idle).await {
        Ok(()) => AfterAnswer::Returned,
        Err(_) => AfterAnswer::Spent,
    }
}
