//! An instant and its text form. Reads no clock.

use std::time::Duration;

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// Days in 400 years, after which the Gregorian calendar repeats itself.
const DAYS_AN_ERA: u64 = 146_097;

/// Days from 0000-03-01, where the first era begins, to 1970-01-01.
const DAYS_TO_EPOCH: u64 = 719_468;

/// A time since 1970-01-01T00:00:00Z, leap seconds not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn new(since_epoch: Duration) -> Self {
        Self(since_epoch)
    }

    pub(crate) fn seconds(self) -> u64 {
        self.0.as_secs()
    }

    pub(crate) fn milliseconds(self) -> u128 {
        self.0.as_millis()
    }

    pub(crate) fn nanoseconds(self) -> u128 {
        self.0.as_nanos()
    }

    /// RFC 3339 with milliseconds.
    pub(crate) fn iso(self) -> String {
        format!("{}T{}.{:03}Z", self.date(), self.time(), self.0.subsec_millis())
    }

    pub(crate) fn rfc2822(self) -> String {
        let (year, month, day) = self.civil();
        let name = |names: &[&'static str], index: u64| {
            usize::try_from(index).ok().and_then(|index| names.get(index).copied()).unwrap_or_default()
        };
        // 1970-01-01 was a Thursday.
        let weekday = name(&DAYS, (self.days() + 4) % 7);
        format!("{weekday}, {day:02} {} {year:04} {} +0000", name(&MONTHS, month - 1), self.time())
    }

    pub(crate) fn date(self) -> String {
        let (year, month, day) = self.civil();
        format!("{year:04}-{month:02}-{day:02}")
    }

    pub(crate) fn time(self) -> String {
        let second = self.seconds() % SECONDS_A_DAY;
        format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
    }

    fn days(self) -> u64 {
        self.seconds() / SECONDS_A_DAY
    }

    /// Year, month and day. Counts years from March, so that a leap day is the last of its year and
    /// the lengths of months follow one line: 153 days every five of them.
    fn civil(self) -> (u64, u64, u64) {
        let days = self.days() + DAYS_TO_EPOCH;
        let (era, day) = (days / DAYS_AN_ERA, days % DAYS_AN_ERA);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, turn) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        (era * 400 + year + turn, month, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date_of_day(day: u64) -> String {
        Instant::new(Duration::from_secs(day * SECONDS_A_DAY)).date()
    }

    /// TI02.
    #[test]
    fn the_fixed_instant() {
        let instant = Instant::new(Duration::from_secs(1_709_130_123));
        assert_eq!(instant.iso(), "2024-02-28T14:22:03.000Z");
    }

    #[test]
    fn leap_days_and_the_ends_of_years() {
        assert_eq!(date_of_day(0), "1970-01-01");
        assert_eq!(date_of_day(364), "1970-12-31");
        assert_eq!(date_of_day(11_016), "2000-02-29");
        assert_eq!(date_of_day(11_017), "2000-03-01");
        assert_eq!(date_of_day(19_782), "2024-02-29");
        assert_eq!(date_of_day(47_540), "2100-02-28");
        assert_eq!(date_of_day(47_541), "2100-03-01");
    }

    /// Every day of 800 years follows the one before it.
    #[test]
    fn every_day_has_its_successor() {
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut expected = (1970, 1, 1);
        for day in 0..2 * DAYS_AN_ERA {
            assert_eq!(Instant::new(Duration::from_secs(day * SECONDS_A_DAY)).civil(), expected);
            let (year, month, day) = expected;
            let leap = month == 2 && (year % 4 == 0 && year % 100 != 0 || year % 400 == 0);
            let length = lengths[usize::try_from(month - 1).unwrap()] + u64::from(leap);
            expected = match (day == length, month == 12) {
                (true, true) => (year + 1, 1, 1),
                (true, false) => (year, month + 1, 1),
                (false, _) => (year, month, day + 1),
            };
        }
    }
}
