//! Collects a streamed answer until it ends, fails or is too long. Progress is passed on as it arrives.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ciborium::Value as Cbor;
use tokio::sync::oneshot;
use wasmtime::component::{Source, StreamConsumer, StreamReader, StreamResult};
use wasmtime::{AsContextMut, Store, StoreContextMut};

use super::shapes::{Event, Part};
use crate::contract::act::tool_list::annotation;
use crate::instance::state::GuestState;
use haft_core::sync::Lock;

/// Events taken at once.
const AT_ONCE: usize = 64;

/// Bytes that one event costs beside what is in it.
const EVENT: usize = 64;

/// Reads a stream to its end, a failure, or slightly more than the transfer limit, so that the check of the answer's
/// length fails.
pub(super) async fn collect(
    store: &mut Store<GuestState>,
    stream: StreamReader<Event>,
) -> wasmtime::Result<Vec<Event>> {
    let (sender, ended) = oneshot::channel();
    let events: Arc<Lock<Vec<Event>>> = Arc::default();
    let limit = store.hostcall_fuel();
    let collector = Collector { events: events.clone(), size: 0, limit, _alive: sender };
    stream.pipe(&mut *store, collector)?;
    // The collector is dropped when nothing more comes.
    store.run_concurrent(async |_| ended.await).await?.ok();
    let mut events = events.lock();
    Ok(std::mem::take(&mut *events))
}

struct Collector {
    events: Arc<Lock<Vec<Event>>>,
    size: usize,
    limit: usize,
    /// Dropped with the collector, which ends the wait for it.
    _alive: oneshot::Sender<()>,
}

impl StreamConsumer<GuestState> for Collector {
    type Item = Event;

    fn poll_consume(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: StoreContextMut<'_, GuestState>,
        mut source: Source<'_, Event>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let this = self.get_mut();
        let mut taken: Vec<Event> = Vec::with_capacity(AT_ONCE);
        source.read(store.as_context_mut(), &mut taken)?;
        if taken.is_empty() && finish {
            return Poll::Ready(Ok(StreamResult::Cancelled));
        }
        let mut is_over = false;
        for event in taken {
            is_over |= matches!(event, Event::Error(_));
            this.size = this.size.saturating_add(size(&event));
            progress(store.data_mut(), &event);
            this.events.lock().push(event);
        }
        let result =
            if is_over || this.size > this.limit { StreamResult::Dropped } else { StreamResult::Completed };
        Poll::Ready(Ok(result))
    }
}

fn size(event: &Event) -> usize {
    EVENT
        + match event {
            Event::Content(part) => part.data.len(),
            Event::Error(_) => 0,
        }
}

/// Emits the progress that a part reports in its metadata, if any.
fn progress(state: &mut GuestState, event: &Event) {
    let Event::Content(Part { metadata, .. }) = event else { return };
    let number = |name: &str| match annotation(metadata, name)? {
        #[expect(clippy::cast_precision_loss, reason = "a count for display")]
        Cbor::Integer(number) => Some(i128::from(number) as f64),
        Cbor::Float(number) => Some(number),
        _ => None,
    };
    if let Some(done) = number("std:progress") {
        state.shared.call.progress(done, number("std:progress-total"), "");
    }
}
