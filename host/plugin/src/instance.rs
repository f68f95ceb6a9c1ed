//! One instance of a component: its creation and its calls, bounded in time and memory. A cancelled guest is stopped
//! within a tick of the epoch clock, after a short grace period.

pub(crate) mod allocator;
pub(crate) mod prewarm;
pub(crate) mod residual;
pub(crate) mod reuse;
pub(crate) mod state;
pub(crate) mod waiting_memory;
pub(crate) mod warm_pool;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use wasmtime::{AsContextMut, Store, UpdateDeadline};

use super::contract::guest::Guest;
use super::contract::linked::LinkedComponent;
use super::contract::{Contract, Request};
use super::engine::Engine;
use super::failure::{End, LoadError, Stop, describe};
use crate::component::listing::Listed;
use crate::contract::answer::Output;
use crate::debug::Recorder;
use crate::instance::state::{GuestState, MAX_HANDLES, Run};
use crate::options::Belongings;
use crate::storage;
use crate::threads::writable::Writable;
use crate::wasi::files::RelativePaths;
use crate::wasi::http::Http;
use haft_core::call::Offers;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::ToolError;

/// Bytes that a guest may hand to haft in one call of a host function. Its answer is one too, so
/// the result limit is added.
const MAX_TRANSFER: usize = 16 << 20;

/// Tasks, streams and futures of a guest, with both of their ends, beside what [`MAX_HANDLES`] counts: a task that calls
/// another one of the same component has no handle of its own.
const MAX_CONCURRENT: usize = 3 * MAX_HANDLES;

/// An instance, between its calls.
pub(super) struct Instance {
    store: Store<GuestState>,
    guest: Box<dyn Guest>,
    limits: Limits,
    pub(super) made: Instant,
    calls: u32,
    recorder: Option<Recorder>,
    /// While no guest works in it.
    spare: Option<OwnedSemaphorePermit>,
    /// Of the memory for instances that wait for a call, while it does.
    waiting_memory: Option<OwnedSemaphorePermit>,
}

/// What a use of an instance came to.
pub(super) struct Used<T> {
    /// What the guest returned, or how it ended.
    pub(super) outcome: Result<T, End>,
    /// The instance, of no more use where the guest has ended; to be dropped when there is time.
    pub(super) instance: Instance,
}

impl Instance {
    /// Makes an instance that may do what `grant` says, with what belongs to its plugin. Without `writable` no call
    /// has begun, and the guest gets no directories.
    ///
    /// # Errors
    /// How the guest ended, if it trapped or was stopped while it was instantiated.
    pub(super) async fn create(
        engine: &Engine,
        component: &LinkedComponent,
        grant: Arc<Grant>,
        belongings: Belongings,
        limits: &Limits,
        (run, writable): (Run, Option<Writable>),
    ) -> Result<Self, End> {
        let http = Http::new(engine.client().clone(), grant.clone(), &belongings.options);
        let protected_paths = engine.protected_paths(&grant);
        let mut store = Store::new(
            component.component().engine(),
            GuestState::new(
                (engine.threads().for_guests(), engine.threads().turn()),
                grant,
                (protected_paths, belongings),
                limits,
                run,
                http,
            ),
        );
        if let Some(writable) = writable {
            store.data_mut().begin(writable);
        }
        store.data_mut().relative = RelativePaths::new(component.contract() == Contract::Plugin);
        store.limiter(|state| &mut state.budget);
        let result = usize::try_from(limits.result).unwrap_or(usize::MAX);
        let result = result.saturating_mul(1 + component.result_cost());
        store.set_hostcall_fuel(MAX_TRANSFER.saturating_add(result));
        store.set_max_component_handles(MAX_HANDLES);
        if let Some(concurrent) = store.concurrent_resource_table() {
            concurrent.set_max_capacity(MAX_CONCURRENT);
        }
        store.set_epoch_deadline(1);
        let recorder = engine.recorder().cloned();
        let samples = recorder.clone();
        store.epoch_deadline_callback(move |mut context| {
            if let Some(recorder) = &samples {
                recorder.sample(&context);
            }
            let GuestState { run, turn, .. } = context.data_mut();
            match run.stop() {
                Some(stop) => Err(stop.into()),
                None if run.inline_time.take_if(|time| time.is_over()).is_some() => {
                    Ok(UpdateDeadline::Yield(1))
                }
                None => Ok(match turn.tick(&run.cancel) {
                    Some(wait) => UpdateDeadline::YieldCustom(1, wait),
                    None => UpdateDeadline::Continue(1),
                }),
            }
        });
        let stop_conditions = StopConditions::from_run(&store.data().run);
        let held = store.data().turn.held();
        match stop_conditions.enforce(held.during(component.instantiate(&mut store))).await {
            Ok(guest) => {
                let (made, limits) = (Instant::now(), *limits);
                Ok(Self { store, guest, limits, made, calls: 0, recorder, spare: None, waiting_memory: None })
            }
            Err(error) => Err(ended(&error, &mut store, (limits, recorder.as_ref()))),
        }
    }

    /// Whether the instance was made with exactly these rights and limits.
    pub(super) fn is_for(&self, grant: &Grant, limits: &Limits) -> bool {
        *self.store.data().grant == *grant && self.limits == *limits
    }

    /// Whether the instance has asked for its directories or used the network. Before a call, both are too early: it
    /// may not serve one then.
    pub(super) fn has_reached_out(&self) -> bool {
        let state = self.store.data();
        state.denied.opened || !state.http.decisions().list().is_empty()
    }

    /// Holds it while no guest works in it.
    pub(super) fn set_aside(&mut self, spare: OwnedSemaphorePermit) {
        self.spare = Some(spare);
    }

    /// The same for one that waits for its first call, in so much of the memory there is for such.
    pub(super) fn set_waiting(&mut self, spare: OwnedSemaphorePermit, memory: OwnedSemaphorePermit) {
        (self.spare, self.waiting_memory) = (Some(spare), Some(memory));
    }

    /// What the guest has.
    pub(super) fn state(&self) -> &GuestState {
        self.store.data()
    }

    /// How many calls it has served.
    pub(super) fn calls(&self) -> u32 {
        self.calls
    }

    /// Whether the instance may serve another call: the last one was not cancelled, reached no limit, and left nothing
    /// open.
    pub(super) fn is_tidy(&mut self) -> bool {
        let is_at_work = self.store.concurrent_resource_table().is_some_and(|table| !table.is_empty());
        let state = self.store.data_mut();
        // One more: the directory that stands for `/`.
        let directories = state.grant.preopens().len() + storage::granted(&state.grant).count() + 1;
        !is_at_work
            && self.guest.is_reusable()
            && state.budget.exceeded.is_none()
            && !state.run.cancel.is_cancelled()
            && residual::is_clean(&mut state.table, directories)
    }

    /// Makes it ready for another call of `plugin`.
    pub(super) fn renew(&mut self, plugin: &Arc<str>) {
        self.store.data_mut().renew(plugin, &self.limits);
    }

    /// Asks for the list of tools.
    pub(super) async fn list(mut self) -> Used<Result<Listed, LoadError>> {
        let stop_conditions = StopConditions::from_run(&self.store.data().run);
        let held = self.store.data().turn.held();
        let listed = held.during(self.guest.list(&mut self.store));
        let listed = Box::pin(stop_conditions.enforce(listed)).await;
        self.used(listed)
    }

    /// Asks for what it offers beside its tools.
    pub(super) async fn offers(mut self) -> Used<Offers> {
        let stop_conditions = StopConditions::from_run(&self.store.data().run);
        let held = self.store.data().turn.held();
        let listed = held.during(self.guest.offers(&mut self.store));
        let listed = Box::pin(stop_conditions.enforce(listed)).await;
        self.used(listed)
    }

    /// Runs a tool.
    pub(super) async fn call(
        mut self,
        request: &Request,
        (run, writable): (Run, Writable),
    ) -> Used<Result<Output, ToolError>> {
        let stop_conditions = StopConditions::from_run(&run);
        let state = self.store.data_mut();
        state.run = run;
        state.begin(writable);
        state.relative.set_named(request.paths.clone());
        self.calls += 1;
        (self.spare, self.waiting_memory) = (None, None);
        self.store.as_context_mut().set_epoch_deadline(1);
        let held = self.store.data().turn.held();
        let called = stop_conditions.enforce(held.during(self.guest.call(&mut self.store, request))).await;
        self.used(called)
    }

    fn used<T>(mut self, outcome: wasmtime::Result<T>) -> Used<T> {
        let how = (&self.limits, self.recorder.as_ref());
        let outcome = outcome.map_err(|error| ended(&error, &mut self.store, how));
        Used { outcome, instance: self }
    }
}

/// How a guest ended, which is also taken down where that is wanted.
fn ended(
    error: &wasmtime::Error,
    store: &mut Store<GuestState>,
    (limits, recorder): (&Limits, Option<&Recorder>),
) -> End {
    if let Some(recorder) = recorder {
        let name = store.data().run.plugin.clone();
        recorder.ended(error, &mut *store, &name);
    }
    describe(error, store, limits)
}

/// How long a cancelled guest may go on, so that one that polls `cancelled` sees it.
const CANCEL_GRACE: Duration = Duration::from_millis(10);

/// How long a guest that has seen the cancellation may clean up. Shorter than the toolbox waits.
const CLEANUP_GRACE: Duration = Duration::from_secs(1);

/// How long a guest may go on after it was cancelled.
fn grace_after_cancel(cancellation_seen: &AtomicBool) -> Duration {
    if cancellation_seen.load(Ordering::Relaxed) { CLEANUP_GRACE } else { CANCEL_GRACE }
}

impl Run {
    /// Why the guest must end now, if it must.
    fn stop(&mut self) -> Option<Stop> {
        let now = Instant::now();
        if now >= self.deadline {
            return Some(Stop::Deadline);
        }
        if !self.cancel.is_cancelled() {
            return None;
        }
        let since = *self.cancelled.get_or_insert(now);
        (now - since >= grace_after_cancel(&self.cancellation_seen)).then_some(Stop::Cancelled)
    }
}

/// Stops a guest that waits in a host call; one that computes is stopped by the epoch callback.
struct StopConditions {
    cancel: CancellationToken,
    cancellation_seen: Arc<AtomicBool>,
    deadline: Instant,
}

impl StopConditions {
    fn from_run(run: &Run) -> Self {
        Self {
            cancel: run.cancel.clone(),
            cancellation_seen: run.cancellation_seen.clone(),
            deadline: run.deadline,
        }
    }

    async fn cancelled(&self) {
        self.cancel.cancelled().await;
        let since = Instant::now();
        while since.elapsed() < grace_after_cancel(&self.cancellation_seen) {
            tokio::time::sleep(CANCEL_GRACE).await;
        }
    }

    async fn enforce<T>(&self, work: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.cancelled() => Err(Stop::Cancelled.into()),
            () = tokio::time::sleep_until(self.deadline.into()) => Err(Stop::Deadline.into()),
        }
    }
}

#[cfg(test)]
mod tests;
