//! Tries to escape the sandbox in every known way, and reports which attempts were held. The attempts are made
//! by this program, started like any command; changes of files are read from disk, not from its report.

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

/// The results of all attempts.
#[derive(Debug)]
pub struct SelfTest {
    /// The findings, in the order of the attempts.
    pub findings: Vec<Finding>,
    /// The duration of all attempts together.
    pub took: Duration,
}

/// The result of one attempt.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The attempt.
    pub attempt: &'static str,
    /// The promise that it attacks.
    pub promise: &'static str,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Reasons why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum SelfTestError {
    /// The fixture could not be set up.
    #[error("{0}")]
    Fixture(String),
    /// The attempting process could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The attempting process failed in general, so its refusals mean nothing.
    #[error("{0}")]
    Useless(String),
    /// There are no attempts for this system.
    #[error("there are no attempts for {0}")]
    NoAttempts(&'static str),
}

impl SelfTest {
    /// Returns the number of attempts made, and the number of those held.
    pub fn counts(&self) -> (usize, usize) {
        let count = |is: fn(&Outcome) -> bool| self.outcomes().filter(|outcome| is(outcome)).count();
        let untried = count(|outcome| matches!(outcome, Outcome::Untried(_)));
        (self.findings.len() - untried, count(|outcome| matches!(outcome, Outcome::Held(_))))
    }

    /// Reports whether everything was held that the layers in use promise.
    pub fn is_kept(&self) -> bool {
        !self.outcomes().any(|outcome| matches!(outcome, Outcome::Escaped(_)))
    }

    fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.findings.iter().map(|finding| &finding.outcome)
    }
}
