//! Shows that a command runs, where a person looks and nothing else is shown: from the moment on when
//! nobody has to be asked any more.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::REDACTOR;
use crate::event::Event;
use crate::report::plain;

/// How often it shows that it goes on.
const TICK: Duration = Duration::from_millis(120);
/// Characters of the command.
const MAX_NAME: usize = 60;

/// A sign that something runs.
pub(super) struct Working {
    /// Whether anybody looks.
    is_seen: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Working {
    /// One on standard error, where that is a terminal.
    pub(super) fn new() -> Self {
        Self::seen(io::stderr().is_terminal())
    }

    fn seen(is_seen: bool) -> Self {
        Self { is_seen, bar: Mutex::default() }
    }

    /// Begins where a command begins, and ends before anything else is told.
    pub(super) fn hear(&self, event: &Event) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Working { what, .. } if self.is_seen => *bar = Some(begun(what)),
            _ => bar.take().into_iter().for_each(|bar| bar.finish_and_clear()),
        }
    }
}

fn begun(what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // A template that were wrong would be so for everybody; the plain sign serves then.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    let line: String = plain(&REDACTOR.redact(what)).chars().take(MAX_NAME).collect();
    bar.set_message(line);
    bar.enable_steady_tick(TICK);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn working() -> Event {
        Event::Working { call: "1".into(), what: "make".into() }
    }

    /// RS09: it is shown where somebody looks, and gone before anything else is.
    #[test]
    fn rs09_a_sign_is_shown_only_where_somebody_looks_and_nothing_else_is_told() {
        let is_shown = |working: &Working| working.bar.lock().unwrap().is_some();
        let (seen, unseen) = (Working::seen(true), Working::seen(false));
        for sign in [&seen, &unseen] {
            assert!(!is_shown(sign));
            sign.hear(&working());
        }
        assert!(is_shown(&seen) && !is_shown(&unseen));
        seen.hear(&Event::Stdout { call: "1".into(), chunk: "x".into() });
        assert!(!is_shown(&seen));
    }
}
