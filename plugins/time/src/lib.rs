//! `time`: the clock of this machine. Knows no time zone but UTC.

mod instant;

use std::time::{SystemTime, UNIX_EPOCH};

use haft_plugin::{Context, Error, Hints, Output, Tool};

use self::instant::Instant;

/// Tells the current time of this machine, in UTC.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Time {
    /// How to write it: epoch (seconds since 1970, the default), `epoch_ms`, `epoch_ns`, iso
    /// (2024-02-28T14:22:03.123Z), rfc2822 (Wed, 28 Feb 2024 14:22:03 +0000), date (2024-02-28) or
    /// time (14:22:03).
    #[serde(default)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    #[default]
    Epoch,
    EpochMs,
    EpochNs,
    Iso,
    Rfc2822,
    Date,
    Time,
}

impl Tool for Time {
    const NAME: &str = "time";
    const HINTS: Hints = Hints { read_only: true, ..Hints::NONE };

    fn call(self, _context: &Context) -> Result<Output, Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_err(|_| Error::failed("the clock of this machine is set to a time before 1970"))?;
        Ok(self.format.write(Instant::new(now)).into())
    }
}

impl Format {
    fn write(self, instant: Instant) -> String {
        match self {
            Self::Epoch => instant.seconds().to_string(),
            Self::EpochMs => instant.milliseconds().to_string(),
            Self::EpochNs => instant.nanoseconds().to_string(),
            Self::Iso => instant.iso(),
            Self::Rfc2822 => instant.rfc2822(),
            Self::Date => instant.date(),
            Self::Time => instant.time(),
        }
    }
}

haft_plugin::export!(Time);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use haft_plugin::testing;
    use serde_json::{Value, json};

    use super::*;

    fn written(format: &str, instant: Duration) -> String {
        let format: Format = serde_json::from_value(Value::from(format)).unwrap();
        format.write(Instant::new(instant))
    }

    /// TI01: every format; TI02: the fixed instant.
    #[test]
    fn every_format_of_a_fixed_instant() {
        let instant = Duration::new(1_709_130_123, 456_789_012);
        let expected = [
            ("epoch", "1709130123"),
            ("epoch_ms", "1709130123456"),
            ("epoch_ns", "1709130123456789012"),
            ("iso", "2024-02-28T14:22:03.456Z"),
            ("rfc2822", "Wed, 28 Feb 2024 14:22:03 +0000"),
            ("date", "2024-02-28"),
            ("time", "14:22:03"),
        ];
        for (format, text) in expected {
            assert_eq!(written(format, instant), text);
        }
    }

    /// TI01.
    #[test]
    fn the_default_is_epoch_and_unknown_formats_list_the_known() {
        let context = Context::default();
        let seconds: u64 = testing::call::<Time>(&json!({}), &context).unwrap().text().parse().unwrap();
        assert!(seconds > 1_709_130_123);
        let error = testing::call::<Time>(&json!({ "format": "unix" }), &context).unwrap_err();
        let names = "`epoch`, `epoch_ms`, `epoch_ns`, `iso`, `rfc2822`, `date`, `time`";
        assert_eq!(error.message(), format!("`format`: unknown variant `unix`, expected one of {names}"));
    }

    #[test]
    fn the_schema_lists_the_formats() {
        let schema = testing::definition::<Time>().parameters;
        let names = json!(["epoch", "epoch_ms", "epoch_ns", "iso", "rfc2822", "date", "time"]);
        assert_eq!(schema["properties"]["format"]["enum"], names);
        assert_eq!(schema.get("required"), None);
    }
}
