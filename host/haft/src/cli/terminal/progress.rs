//! Shows the progress of a fetch: a bar on a terminal, a line in a log.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::stream::Output;
use super::{DIM, REDACTOR, Terminal};
use haft_core::report::plain;
use haft_core::sync::Lock;
use haft_package::{Progress, Step};

/// Maximum characters of the name, so that the bar has room.
const MAX_NAME: usize = 60;

/// Interval of the animation.
const TICK: Duration = Duration::from_millis(120);

/// The templates with and without a known size. The name is cut to the width of the terminal.
const BAR: &str = "{wide_msg} {bar:24} {bytes}/{total_bytes} {bytes_per_sec}";
const NARROW: &str = "{wide_msg} {bytes}/{total_bytes}";
const SPINNER: &str = "{wide_msg} {spinner} {bytes}";

/// Minimum columns for the widest template with a useful name.
const WIDE: usize = 80;

impl Terminal {
    /// Returns the display of fetches.
    pub(in crate::cli) fn progress(self) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress::new(move |step| self.line(step));
        }
        let bar: Lock<Option<ProgressBar>> = Lock::new(None);
        Progress::new(move |step| {
            let mut bar = bar.lock();
            match step {
                Step::Started { what, total } => *bar = Some(started(what, total)),
                Step::Sending { what, .. } => {
                    let begun = started(&format!("sending {what}"), None);
                    begun.enable_steady_tick(TICK);
                    *bar = Some(begun);
                }
                Step::Received { bytes } => bar.iter().for_each(|bar| bar.set_position(bytes)),
                Step::Finished => bar.take().into_iter().for_each(|bar| bar.finish_and_clear()),
            }
        })
    }

    fn line(self, step: Step<'_>) {
        let (verb, what, total) = match step {
            Step::Started { what, total } => ("fetching", what, total),
            Step::Sending { what, total } => ("sending", what, Some(total)),
            Step::Received { .. } | Step::Finished => return,
        };
        let size = total.map(|total| format!(" ({})", rounded(total))).unwrap_or_default();
        self.message(format_args!("{DIM}{verb} {}{size}{DIM:#}", plain(what)));
    }
}

/// Returns a size in whole units, with the last digit rounded.
pub(in crate::cli) fn rounded(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{}.{} MiB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20),
    }
}

fn started(what: &str, total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    let template = match (total, Output::Messages.width()) {
        (None, _) => SPINNER,
        (Some(_), Some(width)) if width < WIDE => NARROW,
        (Some(_), _) => BAR,
    };
    // The template is a constant, and valid; otherwise the plain bar serves.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let what: String = plain(&REDACTOR.redact(what)).chars().take(MAX_NAME).collect();
    bar.set_message(what);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let all = [0, 1023, 1024, 1025, 1 << 20, (3 << 20) + (1 << 19)].map(rounded);
        assert_eq!(all, ["0 B", "1023 B", "1 KiB", "2 KiB", "1.0 MiB", "3.5 MiB"]);
    }
}
