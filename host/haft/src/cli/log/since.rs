//! A moment in the past as people write it. Refuses what could mean two things.

use std::str::FromStr;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};

use haft_manifest::units::parse_duration;

/// A moment in the past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since(pub(super) Timestamp);

const FORMS: &str = "expected how long ago (`30m`, `2h`, `3d`), `today`, `yesterday`, or a time such as \
    `2026-08-01`, `2026-08-01 10:00` or `10:00`";

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let zone = TimeZone::system();
        since(text.trim(), &Timestamp::now().to_zoned(zone)).map(Self).ok_or_else(|| FORMS.to_owned())
    }
}

/// What `text` means now; a time without a zone is one where `now` is.
fn since(text: &str, now: &Zoned) -> Option<Timestamp> {
    let moment = |date: DateTime| Some(date.to_zoned(now.time_zone().clone()).ok()?.timestamp());
    let midnight = |date: Date| moment(date.to_datetime(Time::midnight()));
    match text {
        "today" => return midnight(now.date()),
        "yesterday" => return midnight(now.date().checked_sub(1.day()).ok()?),
        _ => {}
    }
    if let Ok(ago) = parse_duration(text) {
        let ago = SignedDuration::try_from(ago).ok()?;
        return now.timestamp().checked_sub(ago).ok();
    }
    if let Ok(exact) = text.parse::<Timestamp>() {
        return Some(exact);
    }
    if let Ok(date) = text.parse::<DateTime>() {
        return moment(date);
    }
    moment(now.date().to_datetime(text.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_what_people_mean_by_it() {
        let now: Zoned = "2026-08-02T15:30:00+02:00[Europe/Berlin]".parse().unwrap();
        let utc = |text: &str| since(text, &now).map(|time| time.to_string()).unwrap_or_default();
        for (text, expected) in [
            ("90s", "2026-08-02T13:28:30Z"),
            ("2h", "2026-08-02T11:30:00Z"),
            ("3d", "2026-07-30T13:30:00Z"),
            ("today", "2026-08-01T22:00:00Z"),
            ("yesterday", "2026-07-31T22:00:00Z"),
            ("2026-08-01", "2026-07-31T22:00:00Z"),
            ("2026-08-01 10:00", "2026-08-01T08:00:00Z"),
            ("2026-08-01T10:00:00Z", "2026-08-01T10:00:00Z"),
            ("10:00", "2026-08-02T08:00:00Z"),
            ("", ""),
            ("last week", ""),
            ("2", ""),
        ] {
            assert_eq!(utc(text), expected, "{text}");
        }
    }
}
