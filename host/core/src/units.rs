//! Sizes and durations as written by people: a whole number and a unit. A bare number is rejected, because
//! it could mean bytes or kibibytes, seconds or milliseconds.

use std::time::Duration;

/// The reason why a text is not a size or a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text does not begin with a digit.
    #[error("expected a whole number and a unit such as `{0}`")]
    Shape(&'static str),
    /// The unit is missing.
    #[error("the unit is missing: expected one of {0}")]
    Missing(String),
    /// The unit is unknown.
    #[error("unknown unit `{unit}`: expected one of {allowed}")]
    Unknown {
        /// The unit as written.
        unit: String,
        /// The known units.
        allowed: String,
    },
    /// The number is too large.
    #[error("the number is too large")]
    TooLarge,
}

/// The units of sizes, in bytes.
pub const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// The units of durations, in milliseconds.
pub const TIMES: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Parses a size such as `64MiB` or `500KB` into bytes.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    parse(text, SIZES, "64MiB")
}

/// Parses a duration such as `30s`, `500ms`, `10m`, `1h` or `2d`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    parse(text, TIMES, "30s").map(Duration::from_millis)
}

/// Returns the shortest exact form of `bytes` in binary units.
pub fn format_size(bytes: u64) -> String {
    format(bytes, SIZES.iter().take(4))
}

/// Returns the shortest exact form of `duration`, truncated to milliseconds.
pub fn format_duration(duration: Duration) -> String {
    format(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), TIMES.iter())
}

fn parse(text: &str, units: &[(&str, u64)], example: &'static str) -> Result<u64, UnitError> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(UnitError::Shape(example));
    }
    let unit = unit.trim_start_matches(' ');
    let allowed = || units.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if unit.is_empty() {
        return Err(UnitError::Missing(allowed()));
    }
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let factor = factor.ok_or_else(|| UnitError::Unknown { unit: unit.to_owned(), allowed: allowed() })?;
    let number: u64 = number.parse().map_err(|_| UnitError::TooLarge)?;
    number.checked_mul(factor).ok_or(UnitError::TooLarge)
}

fn format<'a>(value: u64, units: impl Iterator<Item = &'a (&'static str, u64)>) -> String {
    // The units ascend, so that the last one that divides the value gives the shortest text.
    let unit = units.filter(|(_, factor)| value.is_multiple_of(*factor)).last();
    unit.map_or_else(|| value.to_string(), |(name, factor)| format!("{}{name}", value / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_parse() {
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("500 KB"), Ok(500_000));
        assert_eq!(parse_size("0B"), Ok(0));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("2d"), Ok(Duration::from_hours(48)));
    }

    #[test]
    fn each_mistake_is_named() {
        let text = |result: Result<u64, UnitError>| result.unwrap_err().to_string();
        assert_eq!(text(parse_size("lots")), "expected a whole number and a unit such as `64MiB`");
        assert_eq!(text(parse_size("-1B")), "expected a whole number and a unit such as `64MiB`");
        assert!(text(parse_size("64")).starts_with("the unit is missing: expected one of `B`, `KiB`"));
        assert!(text(parse_size("64M")).starts_with("unknown unit `M`: expected one of `B`"));
        assert!(text(parse_size("1.5GiB")).starts_with("unknown unit `.5GiB`"));
        assert_eq!(parse_size("99999999999999999999B"), Err(UnitError::TooLarge));
        assert_eq!(parse_size("99999999999GiB"), Err(UnitError::TooLarge));
    }

    #[test]
    fn formatting_round_trips() {
        for text in ["64MiB", "1KiB", "3B", "4GiB", "1000B"] {
            assert_eq!(format_size(parse_size(text).unwrap()), text);
        }
        for text in ["30s", "2m", "1h", "1500ms", "1d"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(format_duration(Duration::from_mins(2)), "2m");
    }
}
