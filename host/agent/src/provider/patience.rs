//! The number and the duration of retries of a turn. Failures end in different ways: an overloaded vendor recovers
//! within minutes; an unusable answer is better at the next attempt or never. Computes the waits and never waits.

use std::time::Duration;

use haft_core::net::Retry;

use super::error::{Failure, Passing};

/// The conditions for repeating a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The maximum number of attempts and the waits between them. Stalled and unusable answers get fewer attempts.
    pub retry: Retry,
    /// Time limit for retries of an overloaded or unreachable vendor in a task with turns, with any number of
    /// attempts: the cost of these turns is lost with the task. `None`: `retry` applies.
    pub in_task: Option<Duration>,
}

impl Patience {
    /// The longest wait between attempts in a task: one attempt per minute shows that haft is still working.
    const MAX_DELAY: Duration = Duration::from_mins(1);
    /// The maximum number of attempts with a silent vendor: each takes minutes.
    const SILENT: u32 = 2;
    /// The maximum number of attempts after corrupt or empty answers: three failures are no accident.
    const UNUSABLE: u32 = 3;
}

impl Default for Patience {
    fn default() -> Self {
        // 10 minutes: longer than most overloads and deployments, short enough for a person to notice an outage.
        Self { retry: Retry::default(), in_task: Some(Duration::from_mins(10)) }
    }
}

pub(super) struct Attempts {
    patience: Patience,
    in_task: bool,
    /// The number of failed attempts.
    pub(super) made: u32,
    /// The number of failures by kind; the waits of one kind do not grow with another.
    unavailable: u32,
    silent: u32,
    unusable: u32,
    /// The total wait for a vendor to recover.
    waited: Duration,
}

impl Attempts {
    /// Starts without attempts. `in_task`: the cost of earlier turns would be lost.
    pub(super) fn new(patience: Patience, in_task: bool) -> Self {
        let waited = Duration::ZERO;
        Self { patience, in_task, made: 0, unavailable: 0, silent: 0, unusable: 0, waited }
    }

    /// Counts a failed attempt. Returns the wait before the next one; `None` after the last one.
    pub(super) fn next(&mut self, failure: &Failure, retry_after: Option<Duration>) -> Option<Duration> {
        self.made += 1;
        let retry = self.patience.retry;
        match failure.passing()? {
            Passing::Unavailable => self.recovery(retry_after),
            Passing::Silent => fewer(retry, Patience::SILENT, &mut self.silent, retry_after),
            Passing::Unusable => fewer(retry, Patience::UNUSABLE, &mut self.unusable, retry_after),
        }
    }

    fn recovery(&mut self, retry_after: Option<Duration>) -> Option<Duration> {
        self.unavailable += 1;
        let retry = self.patience.retry;
        let Some(limit) = self.patience.in_task.filter(|_| self.in_task) else {
            return retry.wait(self.unavailable, retry_after);
        };
        let max_delay = retry.max_delay.max(Patience::MAX_DELAY);
        let lasting = Retry { attempts: u32::MAX, max_delay, max_retry_after: limit, ..retry };
        // A `Retry-After` of zero would otherwise cause endless retries.
        let backoff = lasting.wait(self.unavailable, None)?;
        let delay = lasting.wait(self.unavailable, retry_after)?.max(backoff);
        self.waited = self.waited.saturating_add(delay);
        (self.waited <= limit).then_some(delay)
    }
}

/// Returns the wait after one more of `failures`, with at most `most` attempts.
fn fewer(retry: Retry, most: u32, failures: &mut u32, retry_after: Option<Duration>) -> Option<Duration> {
    *failures += 1;
    Retry { attempts: retry.attempts.min(most), ..retry }.wait(*failures, retry_after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(message: &str) -> Failure {
        crate::provider::codes::reported_error(&serde_json::json!({ "error": message })).unwrap_err()
    }

    fn status(status: u16) -> Failure {
        Failure::refused(status, "")
    }

    /// Returns the waits until the last attempt.
    fn waits(in_task: bool, failure: &Failure) -> Vec<Duration> {
        let mut attempts = Attempts::new(Patience::default(), in_task);
        std::iter::from_fn(|| attempts.next(failure, None)).take(1000).collect()
    }

    /// G05: an overload of minutes does not end a task that has turns.
    #[test]
    fn a_task_with_turns_outlasts_an_overload() {
        for failure in [status(529), status(503), status(429), Failure::Connect("refused".into())] {
            assert_eq!(waits(false, &failure).len(), 3, "{failure}");
            let total: Duration = waits(true, &failure).iter().sum();
            let minutes = Duration::from_mins(8)..=Duration::from_mins(10);
            assert!(minutes.contains(&total), "{failure}: {total:?}");
            assert!(
                waits(true, &failure)
                    .iter()
                    .all(|wait| (Duration::ZERO..=Duration::from_mins(1)).contains(wait))
            );
        }
    }

    /// G05: silent, corrupt and empty responses are retried a limited number of times.
    #[test]
    fn silence_and_corruption_are_tried_again() {
        let silent = Failure::Silent { began: false, waited: Duration::from_mins(5) };
        for in_task in [false, true] {
            assert_eq!(waits(in_task, &silent).len(), 1);
            assert_eq!(waits(in_task, &Failure::TimedOut(Duration::from_mins(10))).len(), 1);
            for unusable in [
                Failure::Malformed("x".into()),
                Failure::Botched("x".into()),
                Failure::Empty("x".into()),
                reported("unexpected EOF"),
            ] {
                assert_eq!(waits(in_task, &unusable).len(), 2, "{unusable}");
            }
            assert_eq!(waits(in_task, &status(400)).len(), 0);
        }
    }

    /// G05: each kind of failure has its own limit, and retries can be turned off.
    #[test]
    fn failures_of_different_kinds_are_counted_apart() {
        let mut attempts = Attempts::new(Patience::default(), false);
        for failure in
            [status(503), Failure::Empty("x".into()), status(503), Failure::Empty("x".into()), status(429)]
        {
            assert!(attempts.next(&failure, None).is_some(), "{failure}");
        }
        assert_eq!(attempts.next(&status(503), None), None);
        assert_eq!(attempts.made, 6);
        let once = Patience { retry: Retry { attempts: 1, ..Retry::default() }, in_task: None };
        assert_eq!(Attempts::new(once, true).next(&status(503), None), None);
        assert_eq!(Attempts::new(once, true).next(&Failure::Empty("x".into()), None), None);
    }

    /// A server that always requests an immediate retry gets a limited number of requests.
    #[test]
    fn a_wait_of_nothing_has_an_end() {
        let mut attempts = Attempts::new(Patience::default(), true);
        let made =
            (0..1000).take_while(|_| attempts.next(&status(503), Some(Duration::ZERO)).is_some()).count();
        assert!((5..100).contains(&made), "{made}");
    }

    /// PL06: a long wait that a vendor requests in a running task is observed, within the patience.
    #[test]
    fn a_wait_that_is_asked_for_is_kept_within_the_patience() {
        let asked = |in_task, minutes| {
            let wait = Duration::from_mins(minutes);
            Attempts::new(Patience::default(), in_task).next(&status(429), Some(wait)) == Some(wait)
        };
        assert!(asked(false, 2) && !asked(false, 3));
        assert!(asked(true, 5) && !asked(true, 11));
    }
}
