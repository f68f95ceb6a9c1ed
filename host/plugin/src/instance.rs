//! One instance of a component: its creation and its calls, bounded in time and memory. A computing guest is stopped
//! within a tick of the epoch clock.

pub(crate) mod allocator;
pub(crate) mod idle;
pub(crate) mod prewarm;
pub(crate) mod state;

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use wasmtime::{AsContextMut, Store, UpdateDeadline};

use super::contract::Contract;
use super::contract::guest::{Guest, Output};
use super::contract::linked::LinkedComponent;
use super::engine::Engine;
use super::failure::{End, LoadError, describe};
use crate::call::{Bounds, Call};
use crate::component::listing::Listed;
use crate::debug::Recorder;
use crate::denials::denied_access::NetworkDecisions;
use crate::instance::state::{GuestState, MAX_HANDLES};
use crate::options::Belongings;
use crate::storage;
use crate::wasi::capability::{NewGuest, Shared};
use haft_core::call::Offers;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::ToolError;

/// Maximum number of bytes that a guest may pass to haft in one call of a host function. An answer is passed like this,
/// so that the result limit is added.
const MAX_TRANSFER: usize = 16 << 20;

/// Maximum number of a guest's tasks, streams and futures, with both ends, besides those in [`MAX_HANDLES`]: a task
/// that calls another task of its component has no handle.
const MAX_CONCURRENT: usize = 3 * MAX_HANDLES;

/// An instance, between its calls.
pub(super) struct Instance {
    store: Store<GuestState>,
    guest: Box<dyn Guest>,
    calls: u32,
    recorder: Option<Recorder>,
    /// The permit while the instance waits for a call.
    slot: Option<OwnedSemaphorePermit>,
}

impl Instance {
    /// Creates an instance for `call`, with the resources of its plugin.
    /// Errors: The end of the guest, if it trapped or was stopped during its instantiation.
    pub(super) async fn create(
        engine: &Engine,
        component: &LinkedComponent,
        belongings: &Belongings,
        call: &Arc<Call>,
    ) -> Result<Self, End> {
        let recorder = engine.0.options.recorder.clone();
        let mut store = store(engine, component, belongings, call);
        let samples = recorder.clone();
        store.epoch_deadline_callback(move |mut context| {
            if let Some(recorder) = &samples {
                recorder.sample(&context);
            }
            let GuestState { shared: Shared { call, .. }, turn, .. } = context.data_mut();
            match call.stop() {
                Some(stop) => Err(stop.into()),
                None if call.leaves_thread() => Ok(UpdateDeadline::Yield(1)),
                None => Ok(match turn.tick(&call.cancel) {
                    Some(wait) => UpdateDeadline::YieldCustom(1, wait),
                    None => UpdateDeadline::Continue(1),
                }),
            }
        });
        let bounds = bounds(&store);
        match bounds.hold(component.instantiate(&mut store)).await {
            Ok(guest) => Ok(Self { store, guest, calls: 0, recorder, slot: None }),
            Err(error) => Err(ended(&error, &mut store, recorder.as_ref())),
        }
    }

    /// Returns whether the instance was made with exactly these rights and limits.
    pub(super) fn is_for(&self, grant: &Grant, limits: &Limits) -> bool {
        let call = &self.store.data().shared.call;
        *call.grant == *grant && call.limits == *limits
    }

    /// Returns whether the instance has requested its directories or used the network. An instance that did so before a
    /// call may not serve one.
    pub(super) fn has_reached_out(&self) -> bool {
        let Shared { denied, decisions, .. } = &self.store.data().shared;
        denied.opened || !decisions.list().is_empty()
    }

    /// Returns whether the instance was created ahead of its first call, which has not begun.
    pub(super) fn is_prewarmed(&self) -> bool {
        self.slot.is_some() && self.calls == 0
    }

    pub(super) fn state(&self) -> &GuestState {
        self.store.data()
    }

    /// Returns whether the instance may serve another call: the last call was not cancelled, reached no limit, and left
    /// nothing open.
    pub(super) fn is_tidy(&mut self) -> bool {
        let is_at_work = self.store.concurrent_resource_table().is_some_and(|table| !table.is_empty());
        let GuestState { shared: Shared { call, table, .. }, budget, .. } = self.store.data_mut();
        // One more for the directory `/`.
        let directories = call.grant.preopens().len() + storage::granted(&call.grant).count() + 1;
        !is_at_work
            && self.guest.is_reusable()
            && budget.exceeded.is_none()
            && !call.cancel.is_cancelled()
            && idle::is_clean(table, directories)
    }

    pub(super) fn renew(&mut self) {
        self.store.data_mut().renew();
    }

    pub(super) async fn list(mut self) -> Result<Result<Listed, LoadError>, End> {
        let listed = Box::pin(bounds(&self.store).hold(self.guest.list(&mut self.store))).await;
        listed.map_err(|error| self.ended(&error))
    }

    pub(super) async fn offers(mut self) -> Result<Offers, End> {
        let listed = Box::pin(bounds(&self.store).hold(self.guest.offers(&mut self.store))).await;
        listed.map_err(|error| self.ended(&error))
    }

    /// Runs a tool. The error is the end of the guest, whose instance cannot be used again. The caller drops the
    /// instance when there is time.
    pub(super) async fn call(mut self, call: &Arc<Call>) -> (Result<Result<Output, ToolError>, End>, Self) {
        self.store.data_mut().begin(call.clone());
        self.calls += 1;
        self.slot = None;
        self.store.as_context_mut().set_epoch_deadline(1);
        let called = bounds(&self.store).hold(self.guest.call(&mut self.store, call)).await;
        (called.map_err(|error| self.ended(&error)), self)
    }

    fn ended(&mut self, error: &wasmtime::Error) -> End {
        ended(error, &mut self.store, self.recorder.as_ref())
    }
}

/// Creates a store without a guest, with the limits of the guest's resources.
fn store(
    engine: &Engine,
    component: &LinkedComponent,
    belongings: &Belongings,
    call: &Arc<Call>,
) -> Store<GuestState> {
    let guest = NewGuest {
        call,
        belongings,
        can_ask: component.kind.contract == Contract::Plugin,
        own_threads: engine.threads().for_guests(),
        connector: &engine.0.client,
        protected_paths: engine.0.protected_paths.for_grant(&call.grant),
        decisions: NetworkDecisions::default(),
    };
    let state = GuestState::new(&guest, engine.threads().turns.turn());
    let mut store = Store::new(component.component().engine(), state);
    store.limiter(|state| &mut state.budget);
    let result = usize::try_from(call.limits.result).unwrap_or(usize::MAX);
    let result = result.saturating_mul(1 + component.kind.result_cost);
    store.set_hostcall_fuel(MAX_TRANSFER.saturating_add(result));
    store.set_max_component_handles(MAX_HANDLES);
    if let Some(concurrent) = store.concurrent_resource_table() {
        concurrent.set_max_capacity(MAX_CONCURRENT);
    }
    store.set_epoch_deadline(1);
    store
}

fn bounds(store: &Store<GuestState>) -> Bounds {
    let GuestState { shared, turn, .. } = store.data();
    shared.call.bounds(turn.held())
}

/// Returns the end of a guest, which is also recorded on request.
fn ended(error: &wasmtime::Error, store: &mut Store<GuestState>, recorder: Option<&Recorder>) -> End {
    if let Some(recorder) = recorder {
        let name = store.data().shared.call.plugin.clone();
        recorder.ended(error, &mut *store, &name);
    }
    describe(error, store)
}

#[cfg(test)]
mod tests;
