//! The built-in `time`, as a model calls it.

use std::time::{SystemTime, UNIX_EPOCH};

use haft::grant::Grant;
use serde_json::json;

use crate::guest::Guest;

/// TI01: the epoch formats give the current time, and every other format gives a text of its form.
#[tokio::test]
async fn every_format_tells_the_time() {
    let guest = Guest::builtin("time", Grant::none()).await;
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let before = seconds();
    let epoch: u64 = guest.says("time", json!({})).await.parse().unwrap();
    let explicit: u64 = guest.says("time", json!({ "format": "epoch" })).await.parse().unwrap();
    let milliseconds: u64 = guest.says("time", json!({ "format": "epoch_ms" })).await.parse().unwrap();
    let nanoseconds: u64 = guest.says("time", json!({ "format": "epoch_ns" })).await.parse().unwrap();
    let after = seconds();
    for report in [epoch, explicit, milliseconds / 1000, nanoseconds / 1_000_000_000] {
        assert!((before..=after).contains(&report), "{report} is not between {before} and {after}");
    }
    for (format, pattern) in [
        ("iso", "0000-00-00T00:00:00.000Z"),
        ("rfc2822", "Www, 00 Mmm 0000 00:00:00 +0000"),
        ("date", "0000-00-00"),
        ("time", "00:00:00"),
    ] {
        let report = guest.says("time", json!({ "format": format })).await;
        assert!(fits(&report, pattern), "{format}: {report}");
    }
}

/// True if `text` has the form of `pattern`: a digit for `0`, and letters for letters except `T` and `Z`.
fn fits(text: &str, pattern: &str) -> bool {
    let alike = |(report, meant): (char, char)| match meant {
        '0' => report.is_ascii_digit(),
        'T' | 'Z' => report == meant,
        meant if meant.is_ascii_uppercase() => report.is_ascii_uppercase(),
        meant if meant.is_ascii_lowercase() => report.is_ascii_lowercase(),
        meant => report == meant,
    };
    text.len() == pattern.len() && text.chars().zip(pattern.chars()).all(alike)
}

/// TI01: an unknown format is an error.
#[tokio::test]
async fn an_unknown_format_is_refused() {
    let guest = Guest::builtin("time", Grant::none()).await;
    let refused = guest.fails("time", json!({ "format": "unix" })).await;
    assert!(
        refused.starts_with("invalid arguments: at `/format`: \"unix\" is not one of \"epoch\""),
        "{refused}"
    );
}
