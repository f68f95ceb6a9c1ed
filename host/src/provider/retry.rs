//! Whether to try again and after how long. Computes; never waits.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::error::Failure;

/// When a request that failed is sent again: for rate limits, server errors and connections
/// that did not come to an answer, and for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often a request is sent at most, the first time included.
    pub attempts: u32,
    /// The wait after the first failure; it doubles with each further one.
    pub first_delay: Duration,
    /// The longest wait that haft chooses by itself.
    pub max_delay: Duration,
    /// The longest wait that a server may ask for. Where it asks for more, the request fails
    /// at once: waiting less would only fail again.
    pub max_retry_after: Duration,
}

impl Retry {
    /// 4: with the delays below that outlasts the restart of a proxy, and a dead host is
    /// reported within four seconds.
    pub const DEFAULT_ATTEMPTS: u32 = 4;
    /// 500 ms, as the vendors' own clients begin.
    pub const DEFAULT_FIRST_DELAY: Duration = Duration::from_millis(500);
    /// 8 s, as the vendors' own clients end.
    pub const DEFAULT_MAX_DELAY: Duration = Duration::from_secs(8);
    /// 2 minutes: rate limits are counted by the minute; quotas that last longer are for a person.
    pub const DEFAULT_MAX_RETRY_AFTER: Duration = Duration::from_mins(2);

    /// How long to wait after attempt number `attempt` (from 1) ended in `failure`; `None` when
    /// it is not to be sent again.
    pub(super) fn delay(
        &self,
        attempt: u32,
        failure: &Failure,
        retry_after: Option<Duration>,
    ) -> Option<Duration> {
        failure.is_transient().then(|| self.wait(attempt, retry_after))?
    }

    /// How long to wait after attempt number `attempt` (from 1) failed in a way that may pass, if
    /// there is to be another.
    pub(crate) fn wait(&self, attempt: u32, retry_after: Option<Duration>) -> Option<Duration> {
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

/// Between half of `delay` and all of it, so that clients that failed together do not return together.
fn jittered(delay: Duration) -> Duration {
    // The standard library seeds its hashers at random; that is random enough for a wait.
    let random = RandomState::new().build_hasher().finish();
    let share = u32::try_from(random % 1024).unwrap_or(0);
    delay / 2 + (delay / 2048).saturating_mul(share)
}

/// What a `Retry-After` header asks for: seconds or a date (RFC 9110, section 10.2.3).
pub(crate) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    Some(http_date(value)?.duration_since(now).unwrap_or_default())
}

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that may be sent.
fn http_date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words.as_slice() else { return None };
    let month = MONTHS.iter().position(|name| name == month)?;
    let clock: Vec<u64> = time.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [hours @ 0..24, minutes @ 0..60, seconds @ 0..=60] = clock.as_slice() else { return None };
    let days = days_since_epoch(year.parse().ok()?, month, day.parse().ok()?)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(((days * 24 + hours) * 60 + minutes) * 60 + seconds))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar; `month` counts from 0.
fn days_since_epoch(year: u64, month: usize, day: u64) -> Option<u64> {
    /// Days of a common year before each month.
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    if !(1970..10_000).contains(&year) || !(1..=31).contains(&day) {
        return None;
    }
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    let leap_year = leap_days(year) > leap_days(year - 1);
    let before = BEFORE.get(month)?;
    let days = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969) + before + day - 1;
    Some(days + u64::from(leap_year && month > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> Failure {
        Failure::Status { status: 503, body: String::new() }
    }

    /// PL06.
    #[test]
    fn pl06_waits_double_within_their_bounds_and_end() {
        let retry = Retry::default();
        for (attempt, full) in [(1, 500), (2, 1000), (3, 2000)] {
            let delay = retry.delay(attempt, &busy(), None).unwrap().as_millis();
            assert!((full / 2..=full).contains(&delay), "{attempt}: {delay}");
        }
        assert_eq!(retry.delay(4, &busy(), None), None);
        assert!(
            Retry { attempts: 99, ..retry }.delay(90, &busy(), None).unwrap() <= Retry::DEFAULT_MAX_DELAY
        );
    }

    /// PL06.
    #[test]
    fn pl06_a_server_chooses_the_wait_unless_it_is_absurd() {
        let retry = Retry::default();
        let asked = |seconds| retry.delay(1, &busy(), Some(Duration::from_secs(seconds)));
        assert_eq!(asked(0), Some(Duration::ZERO));
        assert_eq!(asked(7), Some(Duration::from_secs(7)));
        assert_eq!(asked(3600), None);
    }

    /// PL06.
    #[test]
    fn pl06_retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777 - 90);
        assert_eq!(retry_after("120", now), Some(Duration::from_mins(2)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(90)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:40:00 GMT", now), Some(Duration::ZERO));
        for bad in ["", "-1", "NaN", "soon", "Sun, 06 Nov 1994 08:49 GMT", "Sun, 99 Foo 1994 08:49:37 GMT"] {
            assert_eq!(retry_after(bad, now), None, "{bad}");
        }
    }

    #[test]
    fn dates_count_leap_days() {
        let seconds = |text: &str| http_date(text).unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
        assert_eq!(seconds("Wed, 28 Feb 2024 14:22:03 GMT"), 1_709_130_123);
        assert_eq!(seconds("Fri, 01 Mar 2024 14:22:03 GMT"), 1_709_130_123 + 2 * 86_400);
    }
}
