//! The quota of a caller: a number of calls per minute, all of which may be concurrent, and a number of
//! concurrent calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::sync::Lock;

/// The limits and the usage of a caller.
#[derive(Debug)]
pub(crate) struct Quota(Lock<State>);

#[derive(Debug)]
struct State {
    per_minute: Option<u32>,
    at_once: Option<u32>,
    /// The number of calls that may begin at `since`; a fraction is a part of the time until the next call.
    left: f64,
    since: Instant,
    running: u32,
}

/// A call under way; ends on drop.
#[derive(Debug)]
pub struct CallPermit(Arc<Quota>);

/// The reason why a call may not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// The limit of calls a minute is reached.
    #[error("this caller may make {most} calls per minute: try again in {} \
        s", wait.as_secs().saturating_add(1))]
    Rate {
        /// The limit of calls a minute.
        most: u32,
        /// The wait until the next call may begin.
        wait: Duration,
    },
    /// The limit of concurrent calls is reached.
    #[error("this caller may run {most} calls at once: try again when one has ended")]
    AtOnce {
        /// The limit of concurrent calls.
        most: u32,
    },
}

const MINUTE: f64 = 60.0;

impl Quota {
    pub(crate) fn new(per_minute: Option<u32>, at_once: Option<u32>) -> Self {
        let left = f64::from(per_minute.unwrap_or_default());
        Self(Lock::new(State { per_minute, at_once, left, since: Instant::now(), running: 0 }))
    }

    /// Sets new limits. The usage is kept.
    pub(crate) fn set(&self, per_minute: Option<u32>, at_once: Option<u32>) {
        let mut state = self.0.lock();
        let most = f64::from(per_minute.unwrap_or_default());
        // Without a limit, no usage was counted.
        state.left = state.per_minute.map_or(most, |_| state.left.min(most));
        (state.per_minute, state.at_once) = (per_minute, at_once);
    }

    /// Begins a call, if the limits allow it.
    pub(crate) fn begin(quota: &Arc<Self>) -> Result<CallPermit, Exhausted> {
        quota.0.lock().begin(Instant::now())?;
        Ok(CallPermit(quota.clone()))
    }
}

impl State {
    fn begin(&mut self, now: Instant) -> Result<(), Exhausted> {
        // Checked first: a call rejected for this reason does not count toward the rate.
        if let Some(most) = self.at_once.filter(|most| self.running >= *most) {
            return Err(Exhausted::AtOnce { most });
        }
        if let Some(most) = self.per_minute {
            let rate = f64::from(most) / MINUTE;
            let earned = now.saturating_duration_since(self.since).as_secs_f64() * rate;
            self.left = (self.left + earned).min(f64::from(most));
            self.since = now;
            if self.left < 1.0 {
                return Err(Exhausted::Rate {
                    most,
                    wait: Duration::from_secs_f64((1.0 - self.left) / rate),
                });
            }
            self.left -= 1.0;
        }
        self.running += 1;
        Ok(())
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.0.0.lock().running -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_at_once_are_counted_and_given_back() {
        let quota = Arc::new(Quota::new(None, Some(2)));
        let first = Quota::begin(&quota).unwrap();
        let _second = Quota::begin(&quota).unwrap();
        assert_eq!(Quota::begin(&quota).unwrap_err(), Exhausted::AtOnce { most: 2 });
        drop(first);
        assert!(Quota::begin(&quota).is_ok());
    }

    #[test]
    fn other_bounds_give_nothing_back() {
        let quota = Arc::new(Quota::new(Some(2), None));
        assert!((0..2).all(|_| Quota::begin(&quota).is_ok()));
        quota.set(Some(3), None);
        assert!(matches!(Quota::begin(&quota), Err(Exhausted::Rate { most: 3, .. })));
        quota.set(None, None);
        quota.set(Some(1), None);
        assert!(Quota::begin(&quota).is_ok());
    }

    #[test]
    fn calls_in_a_minute_come_back_one_by_one() {
        let quota = Quota::new(Some(6), None);
        let mut state = quota.0.lock();
        let begun = state.since;
        assert!((0..6).all(|_| state.begin(begun).is_ok()));
        let Err(Exhausted::Rate { most: 6, wait }) = state.begin(begun) else { panic!("a seventh call") };
        assert!((Duration::from_secs(9)..=Duration::from_secs(10)).contains(&wait), "{wait:?}");
        assert!(state.begin(begun + Duration::from_secs(9)).is_err());
        assert!(state.begin(begun + Duration::from_secs(11)).is_ok());
        let later = begun + Duration::from_hours(1);
        assert_eq!(
            (0..20).filter(|_| state.begin(later).is_ok()).count(),
            6,
            "an hour saves no more than a minute"
        );
    }
}
