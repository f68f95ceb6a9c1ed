//! Decides whether to retry a request and after how long. Computes the wait and never waits.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

/// The conditions for repeating a failed request: only rate limits, server errors and connections without an
/// answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The maximum number of attempts, including the first.
    pub attempts: u32,
    /// The wait after the first failure. Each further failure doubles it.
    pub first_delay: Duration,
    /// The longest wait between attempts.
    pub max_delay: Duration,
    /// The longest accepted `Retry-After`. If a server requires more, the request fails without a retry: a shorter
    /// wait would lead to another failure.
    pub max_retry_after: Duration,
}

impl Retry {
    /// 4: with the delays below, this outlasts the restart of a proxy, and reports an unreachable host within four
    /// seconds.
    pub(crate) const DEFAULT_ATTEMPTS: u32 = 4;
    /// 500 ms, the first delay of the vendors' own clients.
    pub(crate) const DEFAULT_FIRST_DELAY: Duration = Duration::from_millis(500);
    /// 8 s, the last delay of the vendors' own clients.
    pub(crate) const DEFAULT_MAX_DELAY: Duration = Duration::from_secs(8);
    /// 2 minutes: rate limits are counted by the minute; longer quotas need a person.
    pub(crate) const DEFAULT_MAX_RETRY_AFTER: Duration = Duration::from_mins(2);

    /// Returns the wait after the temporary failure of attempt number `attempt` (from 1); `None` after the last
    /// attempt.
    pub fn wait(&self, attempt: u32, retry_after: Option<Duration>) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        match retry_after {
            Some(asked) if asked > self.max_retry_after => None,
            Some(asked) => Some(asked),
            None => Some(jittered(self.backoff(attempt))),
        }
    }

    fn backoff(&self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
        self.first_delay.saturating_mul(factor).min(self.max_delay)
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: Self::DEFAULT_ATTEMPTS,
            first_delay: Self::DEFAULT_FIRST_DELAY,
            max_delay: Self::DEFAULT_MAX_DELAY,
            max_retry_after: Self::DEFAULT_MAX_RETRY_AFTER,
        }
    }
}

/// Returns a random duration between half of `delay` and `delay`, so that clients that failed together do not
/// retry together.
fn jittered(delay: Duration) -> Duration {
    // The random seed of the standard library's hashers suffices for a wait.
    let random = RandomState::new().build_hasher().finish();
    let share = u32::try_from(random % 1024).unwrap_or(0);
    delay / 2 + (delay / 2048).saturating_mul(share)
}

/// Parses a `Retry-After` header: seconds or a date (RFC 9110, section 10.2.3).
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    // The date format that servers must send is also valid in RFC 2822.
    let date = SystemTime::from(jiff::fmt::rfc2822::parse(value).ok()?.timestamp());
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    /// PL06: waits double within their bounds, and their number is limited.
    #[test]
    fn waits_double_within_their_bounds_and_end() {
        let retry = Retry::default();
        for (attempt, full) in [(1, 500), (2, 1000), (3, 2000)] {
            let delay = retry.wait(attempt, None).unwrap().as_millis();
            assert!((full / 2..=full).contains(&delay), "{attempt}: {delay}");
        }
        assert_eq!(retry.wait(4, None), None);
        assert!(Retry { attempts: 99, ..retry }.wait(90, None).unwrap() <= Retry::DEFAULT_MAX_DELAY);
    }

    /// PL06: the server's wait applies, unless it exceeds the limit.
    #[test]
    fn a_server_chooses_the_wait_unless_it_is_absurd() {
        let retry = Retry::default();
        let asked = |seconds| retry.wait(1, Some(Duration::from_secs(seconds)));
        assert_eq!(asked(0), Some(Duration::ZERO));
        assert_eq!(asked(7), Some(Duration::from_secs(7)));
        assert_eq!(asked(3600), None);
    }

    /// PL06: `Retry-After` is a number of seconds or a date.
    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777 - 90);
        assert_eq!(retry_after("120", now), Some(Duration::from_mins(2)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(90)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:40:00 GMT", now), Some(Duration::ZERO));
        for bad in ["", "-1", "NaN", "soon", "Sun, 99 Foo 1994 08:49:37 GMT"] {
            assert_eq!(retry_after(bad, now), None, "{bad}");
        }
    }
}
