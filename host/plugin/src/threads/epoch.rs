//! The clock that advances wasmtime's epoch, at which running guests check for cancellation and their deadline. It
//! stands still while no guest runs, so an idle haft uses no processor time.

use std::sync::{Arc, Condvar};
use std::thread;
use std::time::Duration;

use wasmtime::EngineWeak;

use haft_core::sync::Lock;

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
    /// Creates a clock, with shorter ticks if stacks are recorded at every tick.
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
