//! Tries to get out of the sandbox by every known way, and reports which attempts were held. The attempts are made by
//! this program itself, started like any command; what happened to files is read from the disk, not taken from its
//! report.

mod outcome;
#[cfg_attr(target_os = "linux", path = "selftest/platform/linux.rs")]
#[cfg_attr(target_os = "macos", path = "selftest/platform/macos.rs")]
mod platform;

use std::time::Duration;

use serde::Serialize;

pub use self::outcome::Outcome;
pub(crate) use self::platform::entry;
pub use self::platform::run;
use crate::process::ProcessError;

/// What came of all attempts.
#[derive(Debug)]
pub struct SelfTest {
    /// In the order in which they were made.
    pub findings: Vec<Finding>,
    /// How long they took, all together.
    pub took: Duration,
}

/// What came of one attempt.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// What was tried.
    pub attempt: &'static str,
    /// What it would have broken.
    pub promise: &'static str,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum SelfTestError {
    /// What is attacked could not be set up.
    #[error("{0}")]
    Fixture(String),
    /// The one who tries could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// It did not do what it is for, so that what it was refused says nothing.
    #[error("{0}")]
    Useless(String),
    /// There are no attempts for this system.
    #[error("there are no attempts for {0}")]
    NoAttempts(&'static str),
}

impl SelfTest {
    /// How many attempts were made, and how many of them were held.
    pub fn counts(&self) -> (usize, usize) {
        let count = |is: fn(&Outcome) -> bool| self.outcomes().filter(|outcome| is(outcome)).count();
        let untried = count(|outcome| matches!(outcome, Outcome::Untried(_)));
        (self.findings.len() - untried, count(|outcome| matches!(outcome, Outcome::Held(_))))
    }

    /// Whether everything was held that the layers in use promise to keep.
    pub fn is_kept(&self) -> bool {
        !self.outcomes().any(|outcome| matches!(outcome, Outcome::Escaped(_)))
    }

    fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.findings.iter().map(|finding| &finding.outcome)
    }
}
