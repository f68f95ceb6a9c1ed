//! Measures the time that users have spent on questions of a server. Asks no question itself.

use std::time::{Duration, Instant};

use haft_core::sync::Lock;

/// The total time of questions to users. This time does not count towards time limits.
#[derive(Debug, Default)]
pub(super) struct AskingClock(Lock<AskingState>);

#[derive(Debug, Default)]
struct AskingState {
    questions: u32,
    since: Option<Instant>,
    total: Duration,
}

impl AskingClock {
    /// Returns the total time so far.
    pub(super) fn total(&self) -> Duration {
        let state = self.0.lock();
        state.total + state.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Returns the number of open questions.
    pub(super) fn count(&self) -> u32 {
        self.0.lock().questions
    }

    /// Counts until the returned guard is dropped.
    pub(super) fn begin(&self) -> AskingGuard<'_> {
        let mut state = self.0.lock();
        state.questions += 1;
        state.since.get_or_insert_with(Instant::now);
        AskingGuard(self)
    }
}

/// A question that is being asked.
pub(super) struct AskingGuard<'a>(&'a AskingClock);

impl Drop for AskingGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.questions -= 1;
        if state.questions == 0 {
            let asked = state.since.take().map(|since| since.elapsed());
            state.total += asked.unwrap_or_default();
        }
    }
}
