//! The tick by which running guests look up: whether they are cancelled, whether their time is
//! over. Stands still while no guest runs, so an idle haft uses no processor time.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::EngineWeak;

/// Short enough that a cancelled guest is gone before a person notices, long enough that two
/// hundred wake-ups a second stay unmeasurable.
const TICK: Duration = Duration::from_millis(5);

/// Advances the engine's epoch while anybody holds a [`Ticking`].
pub(super) struct Clock(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    stopped: bool,
}

/// Keeps the clock going while it lives.
pub(super) struct Ticking(Arc<Shared>);

impl Clock {
    /// Starts the clock's thread.
    pub(super) fn start(engine: EngineWeak) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        thread::Builder::new().name("haft-clock".into()).spawn(move || own.tick(&engine))?;
        Ok(Self(shared))
    }

    /// Keeps the clock going until the answer is dropped.
    pub(super) fn run(&self) -> Ticking {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running += 1;
        if state.running == 1 {
            self.0.changed.notify_one();
        }
        Ticking(self.0.clone())
    }
}

impl Shared {
    fn tick(&self, engine: &EngineWeak) {
        while self.wait_until_running() {
            thread::sleep(TICK);
            let Some(engine) = engine.upgrade() else { return };
            engine.increment_epoch();
        }
    }

    /// Waits while nobody runs; `false` when the clock was dropped.
    fn wait_until_running(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(state, |state| state.running == 0 && !state.stopped);
        !waited.unwrap_or_else(PoisonError::into_inner).stopped
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).running -= 1;
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.0.changed.notify_one();
    }
}
