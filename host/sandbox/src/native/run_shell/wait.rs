//! The wait time of a call. Refuses invalid times.

use std::time::Duration;

use serde_json::Value;

use haft_core::limit::Limits;

/// The start of every refusal.
const FORMS: &str = "invalid wait duration; use forms like 30s, 10m, 1h, 500ms";

/// The units with their milliseconds.
const UNITS: &[(&str, u64)] = &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// The wait time of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The default time.
    Usual,
    /// No wait.
    No,
    /// This time.
    For(Duration),
}

impl Wait {
    /// Parses the argument `wait`.
    pub(super) fn parse(value: Option<&Value>) -> Result<Self, String> {
        let milliseconds = match value {
            None | Some(Value::Null | Value::Bool(true)) => return Ok(Self::Usual),
            Some(Value::Bool(false)) => return Ok(Self::No),
            Some(Value::Number(number)) => {
                let whole = number.as_u64().and_then(|seconds| seconds.checked_mul(1000));
                whole.ok_or_else(|| {
                    format!("{FORMS} (`wait` is {number}; a number is whole seconds, from 1)")
                })?
            }
            Some(Value::String(text)) => milliseconds(text).ok_or_else(|| refused(text))?,
            Some(other) => return Err(format!("{FORMS}, true or false (`wait` is {other})")),
        };
        let time = Duration::from_millis(milliseconds);
        if time.is_zero() || time > Limits::MAX_TIME {
            return Err(format!("{FORMS} (at least 1ms and at most {})", shown(Limits::MAX_TIME)));
        }
        Ok(Self::For(time))
    }
}

fn refused(text: &str) -> String {
    format!("{FORMS} (`wait` is `{}`)", haft_core::report::plain(text))
}

/// Parses a time to milliseconds; a plain number is seconds.
fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let scale = match unit {
        "" => 1000,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// Formats a time: `250ms`, `7s`, `2m`, `2h`, `1.250s`.
pub(super) fn shown(time: Duration) -> String {
    let milliseconds = time.as_millis();
    let whole = |unit: u128| milliseconds.is_multiple_of(unit) && milliseconds >= unit;
    match milliseconds {
        total if whole(3_600_000) => format!("{}h", total / 3_600_000),
        total if whole(60_000) => format!("{}m", total / 60_000),
        total if whole(1000) => format!("{}s", total / 1000),
        total if total < 1000 => format!("{total}ms"),
        total => format!("{}.{:03}s", total / 1000, total % 1000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: &Value) -> Result<Wait, String> {
        Wait::parse(Some(value))
    }

    /// RS03: every form of a time is accepted.
    #[test]
    fn rs03_every_form_of_a_wait_is_understood() {
        let time = |milliseconds| Ok(Wait::For(Duration::from_millis(milliseconds)));
        for (value, milliseconds) in [
            (json!("500ms"), 500),
            (json!("30s"), 30_000),
            (json!("10m"), 600_000),
            (json!("1h"), 3_600_000),
            (json!("1d"), 86_400_000),
            (json!("500"), 500_000),
            (json!(7), 7000),
            (json!(" 2s "), 2000),
        ] {
            assert_eq!(parse(&value), time(milliseconds), "{value}");
        }
        assert_eq!(parse(&json!(true)), Ok(Wait::Usual));
        assert_eq!(parse(&json!(null)), Ok(Wait::Usual));
        assert_eq!(parse(&json!(false)), Ok(Wait::No));
        assert_eq!(Wait::parse(None), Ok(Wait::Usual));
    }

    /// RS04: an invalid time is refused with the valid forms.
    #[test]
    fn rs04_what_is_no_wait_is_refused_with_the_forms() {
        for value in [
            json!("soon"),
            json!(""),
            json!("10x"),
            json!("1.5s"),
            json!("-3s"),
            json!(-1),
            json!(0),
            json!(1.5),
            json!("0s"),
            json!([]),
            json!({}),
            json!("99999999999999999999d"),
            json!(u64::MAX),
            json!("2d"),
        ] {
            let error = parse(&value).unwrap_err();
            assert!(
                error.starts_with("invalid wait duration; use forms like 30s, 10m, 1h, 500ms"),
                "{value}: {error}"
            );
        }
    }

    #[test]
    fn rs03_a_time_is_shown_as_it_is_written() {
        for (milliseconds, text) in [
            (250, "250ms"),
            (7000, "7s"),
            (120_000, "2m"),
            (7_200_000, "2h"),
            (1250, "1.250s"),
            (90_000, "90s"),
        ] {
            assert_eq!(shown(Duration::from_millis(milliseconds)), text);
        }
    }
}
