//! A caller: its names, its quota, and the reason for its denial. The messages of a denial reveal nothing about
//! accepted tokens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::sync::Lock;

/// A caller. Clones are equivalent.
#[derive(Clone, Debug)]
pub struct Caller {
    seat: Arc<Seat>,
    id: Arc<str>,
}

/// The shared state of all callers of one rule.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) name: Arc<str>,
    pub(crate) quota: Arc<Quota>,
}

/// The maximum number of characters of a subject. The identifiers of authorization servers are shorter.
const MAX_SUBJECT: usize = 128;

impl Caller {
    pub(crate) fn new(seat: &Arc<Seat>) -> Self {
        Self { seat: seat.clone(), id: seat.name.clone() }
    }

    /// Returns the caller for the `subject` of a token; `None` if it is too long. Ambiguous characters are escaped,
    /// so that different subjects give different names.
    pub(crate) fn of_subject(seat: &Arc<Seat>, subject: &str) -> Option<Self> {
        if subject.chars().count() > MAX_SUBJECT {
            return None;
        }
        let plain = |c: char| c.is_ascii_graphic() && c != '\\' || c.is_alphanumeric();
        let escaped = |c: char| if plain(c) { c.to_string() } else { c.escape_unicode().to_string() };
        let shown: String = subject.chars().map(escaped).collect();
        Some(Self { seat: seat.clone(), id: format!("{}/{shown}", seat.name).into() })
    }

    /// Returns the name in program.toml.
    pub fn name(&self) -> &str {
        &self.seat.name
    }

    /// Returns the id in the journal: the name, and the subject of the JSON Web Token after a `/`.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Begins a call, if the quota of this name, which all its callers share, permits it.
    ///
    /// # Errors
    /// The quota is used up.
    pub fn begin_call(&self) -> Result<CallPermit, Exhausted> {
        Quota::begin(&self.seat.quota)
    }
}

/// The reason why a caller is denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The request has no token.
    #[error("expected `Authorization: Bearer` and a token of this server")]
    Missing,
    /// No caller has the token.
    #[error("this token is not accepted: {0}")]
    Invalid(&'static str),
    /// The caller lacks a required scope.
    #[error("this token lacks the scope `{}`, which calls require", .0.join(" "))]
    Scope(Vec<String>),
    /// The token cannot be verified now.
    #[error("the keys of the authorization server are not available at the moment; try again later")]
    Unavailable,
}

// The quota of a caller: a number of calls per minute, all of which may be concurrent, and a number of concurrent
// calls.

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
    fn no_two_subjects_are_called_the_same() {
        let seat = Arc::new(Seat { name: "team".into(), quota: Arc::new(Quota::new(None, None)) });
        let id = |subject: &str| Caller::of_subject(&seat, subject).map(|caller| caller.id().to_string());
        assert_eq!(id("ada").unwrap(), "team/ada");
        assert_eq!(id("a b\n").unwrap(), "team/a\\u{20}b\\u{a}");
        assert_ne!(id("a b"), id("a\\u{20}b"));
        assert_eq!(id(&"x".repeat(129)), None);
    }

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
