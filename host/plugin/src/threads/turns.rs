//! Turns of guests that compute for long: at most as many compute concurrently as there are processors. The kernel
//! shares the processors between threads, so that with dozens of computing threads a thread with a moment's work
//! would wait for tens of milliseconds. The first ticks of a call need no turn: most calls end within them.

use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar};
use std::thread;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use wasmtime::EngineWeak;

use haft_core::sync::Lock;

/// Number of epoch ticks that a guest computes before it needs a turn, and that a turn lasts if others wait. As long
/// as the kernel's own time slices: shorter turns would cost more in switching.
const TICKS: u8 = 2;

/// Maximum wait of a guest for its turn. With the maximum number of guests on one processor the usual wait is less
/// than half of it. If no turn is free, because other guests are stuck in the kernel, the guest continues without a
/// turn.
const PATIENCE: Duration = Duration::from_secs(2);

/// The turns of all guests. Clones share the turns.
#[derive(Clone)]
pub(crate) struct Turns {
    free: Arc<Semaphore>,
    patience: Duration,
}

pub(crate) struct Turn {
    turns: Turns,
    held: Held,
    ticks: u8,
}

/// The turn that a guest has now.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<Lock<State>>);

#[derive(Default)]
enum State {
    #[default]
    Waits,
    Computes {
        _permit: OwnedSemaphorePermit,
    },
    /// The guest has waited too long once.
    WithoutTurns,
}

/// The wait of a guest before it continues.
type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Default for Turns {
    fn default() -> Self {
        Self::new(thread::available_parallelism().map_or(1, usize::from), PATIENCE)
    }
}

impl Turns {
    fn new(count: usize, patience: Duration) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), patience }
    }

    pub(crate) fn turn(&self) -> Turn {
        Turn { turns: self.clone(), held: Held::default(), ticks: 0 }
    }
}

impl Turn {
    /// Counts a tick while the guest computes; returns the wait for its turn, if others have theirs. The wait ends
    /// early when the call is cancelled, so that the guest can see the cancellation.
    pub(crate) fn tick(&mut self, cancel: &CancellationToken) -> Option<Wait> {
        self.ticks += 1;
        if self.ticks < TICKS || self.held.is_without() {
            return None;
        }
        self.ticks = 0;
        // Passed to the guest that has waited longest.
        self.held.give_back();
        let Turns { free, patience } = self.turns.clone();
        if let Ok(permit) = free.clone().try_acquire_owned() {
            self.held.set(State::Computes { _permit: permit });
            return None;
        }
        let (held, cancel) = (self.held.clone(), cancel.clone());
        Some(Box::pin(async move {
            tokio::select! {
                biased;
                permit = free.acquire_owned() => held.set(permit.map_or(State::WithoutTurns, |permit| State::Computes { _permit: permit })),
                () = cancel.cancelled() => {}
                () = tokio::time::sleep(patience) => held.set(State::WithoutTurns),
            }
        }))
    }

    pub(crate) fn held(&self) -> Held {
        self.held.clone()
    }

    pub(crate) fn renew(&mut self) {
        (self.ticks, self.held) = (0, Held::default());
    }
}

impl Held {
    /// Does the guest's work, which has a turn while it computes and none while it waits.
    pub(crate) async fn during<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            let polled = work.as_mut().poll(cx);
            self.give_back();
            polled
        })
        .await
    }

    fn give_back(&self) {
        let mut state = self.0.lock();
        if matches!(*state, State::Computes { .. }) {
            *state = State::Waits;
        }
    }

    fn is_without(&self) -> bool {
        matches!(*self.0.lock(), State::WithoutTurns)
    }

    fn set(&self, state: State) {
        *self.0.lock() = state;
    }
}

// The clock that advances wasmtime's epoch, at which running guests check for cancellation and their deadline. It stands
// still while no guest runs, so an idle haft uses no processor time.

/// Short enough that a user does not notice the delay of a cancellation; long enough that 200 wake-ups a second
/// cost nothing measurable.
const TICK: Duration = Duration::from_millis(5);

/// Interval of sampling guests' stacks, for a profile: some hundred samples for a call of a tenth of a second.
const PROFILE_TICK: Duration = Duration::from_millis(1);

/// Advances the epoch of its engine while an [`EpochTicks`] exists.
pub(crate) struct EpochClock(Arc<Shared>);

struct Shared {
    tick: Duration,
    state: Lock<ClockState>,
    changed: Condvar,
}

#[derive(Default)]
struct ClockState {
    engine: Option<EngineWeak>,
    running: usize,
    /// Whether the clock's thread waits for a guest to run. Waking it costs a system call, so it is done only then.
    stands: bool,
    stopped: bool,
}

/// Keeps the clock running until it is dropped.
pub(crate) struct EpochTicks(Arc<Shared>);

impl EpochClock {
    pub(crate) fn new(profiles: bool) -> Self {
        let tick = if profiles { PROFILE_TICK } else { TICK };
        Self(Arc::new(Shared { tick, state: Lock::default(), changed: Condvar::new() }))
    }

    /// Starts the clock's thread with its engine, before which no guest can run.
    pub(crate) fn start(&self, engine: EngineWeak) -> std::io::Result<()> {
        self.0.state.lock().engine = Some(engine);
        let own = self.0.clone();
        thread::Builder::new().name("haft-clock".into()).spawn(move || own.tick())?;
        Ok(())
    }

    /// Keeps the clock running until the returned value is dropped.
    pub(crate) fn keep_ticking(&self) -> EpochTicks {
        let mut state = self.0.state.lock();
        state.running += 1;
        if std::mem::take(&mut state.stands) {
            self.0.changed.notify_one();
        }
        EpochTicks(self.0.clone())
    }
}

impl Shared {
    fn tick(&self) {
        while self.wait_until_running() {
            thread::sleep(self.tick);
            if let Some(engine) = self.state.lock().engine.as_ref().and_then(EngineWeak::upgrade) {
                engine.increment_epoch();
            }
        }
    }

    /// Waits while no guest runs; `false` when the clock was dropped.
    fn wait_until_running(&self) -> bool {
        drop(self.changed.wait_while(self.state.lock(), |state| {
            state.stands = state.running == 0 && !state.stopped;
            state.stands
        }));
        !self.state.lock().stopped
    }
}

impl Drop for EpochTicks {
    fn drop(&mut self) {
        self.0.state.lock().running -= 1;
    }
}

impl Drop for EpochClock {
    fn drop(&mut self) {
        self.0.state.lock().stopped = true;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks until the guest takes its first turn; returns its wait.
    fn compute(turn: &mut Turn) -> Option<Wait> {
        let cancel = CancellationToken::new();
        for _ in 1..TICKS {
            assert!(turn.tick(&cancel).is_none(), "the first ticks take no turn");
        }
        turn.tick(&cancel)
    }

    #[tokio::test]
    async fn guests_take_turns() {
        let turns = Turns::new(1, PATIENCE);
        let (mut first, mut second) = (turns.turn(), turns.turn());
        assert!(compute(&mut first).is_none());
        let waits = tokio::spawn(compute(&mut second).expect("the first has the turn"));
        tokio::task::yield_now().await;
        let again = compute(&mut first).expect("the second waits for it");
        waits.await.unwrap();
        let again = tokio::spawn(again);
        tokio::task::yield_now().await;
        assert!(!again.is_finished(), "the second has it");
        second.held().give_back();
        again.await.unwrap();
    }

    #[tokio::test]
    async fn a_guest_that_waits_for_something_has_no_turn() {
        let turns = Turns::new(1, PATIENCE);
        let (mut first, mut second) = (turns.turn(), turns.turn());
        let held = first.held();
        let mut work = Box::pin(held.during(async {
            assert!(compute(&mut first).is_none());
            std::future::pending::<()>().await;
        }));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(work.as_mut().poll(&mut cx).is_pending());
        assert!(compute(&mut second).is_none());
    }

    #[tokio::test]
    async fn a_cancelled_guest_does_not_wait() {
        let turns = Turns::new(1, PATIENCE);
        let (mut first, mut second, cancel) = (turns.turn(), turns.turn(), CancellationToken::new());
        assert!(compute(&mut first).is_none());
        (1..TICKS).for_each(|_| drop(second.tick(&cancel)));
        let waits = second.tick(&cancel).unwrap();
        cancel.cancel();
        waits.await;
        assert!(matches!(*second.held.0.lock(), State::Waits));
    }

    /// A guest whose turn does not come continues, for example if the holders of turns are stuck.
    #[tokio::test]
    async fn a_guest_whose_turn_does_not_come_goes_on() {
        let turns = Turns::new(1, Duration::from_millis(1));
        let (mut first, mut second) = (turns.turn(), turns.turn());
        assert!(compute(&mut first).is_none());
        compute(&mut second).unwrap().await;
        assert!(compute(&mut second).is_none(), "nor does it wait again");
        second.renew();
        assert!(compute(&mut second).is_some());
    }
}
