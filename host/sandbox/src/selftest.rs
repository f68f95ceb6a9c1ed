//! Tries to escape the sandbox in every known way, and reports which attempts were held. The attempts are made
//! by this program, started like any command; changes of files are read from disk, not from its report.

#[cfg(target_os = "linux")]
mod platform;

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
pub(crate) use self::platform::entry;
#[cfg(target_os = "linux")]
pub use self::platform::run;
use crate::process::ProcessError;

/// The results of all attempts.
#[derive(Debug)]
pub struct SelfTest {
    /// The findings, in the order of the attempts.
    pub findings: Vec<Finding>,
    /// The reason why processes cannot be held to single hosts and services here, if they cannot.
    pub unheld_hosts: Option<String>,
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
    /// The fixture could not be set up, or the attempting process failed in general, so that its refusals mean nothing.
    #[error("{0}")]
    Failed(String),
    /// The attempting process could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
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

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "how", rename_all = "lowercase")]
pub enum Outcome {
    /// The attempt was stopped; with the reason.
    Held(String),
    /// The attempt succeeded, in a way that the layers in use are known not to prevent.
    Gap(String),
    /// The attempt succeeded, although the layers in use promise to prevent it.
    Escaped(String),
    /// The attempt could not be made here; with the reason.
    Untried(String),
}

/// Returns `None`: no process is started for attempts, which use mechanisms of Linux.
#[cfg(target_os = "macos")]
pub(crate) fn entry() -> Option<std::process::ExitCode> {
    None
}

/// Returns the error that there are no attempts.
///
/// # Errors
/// Always.
#[cfg(target_os = "macos")]
pub async fn run(
    _: &crate::confine::Confiner,
    _: &std::path::Path,
    _: &std::path::Path,
) -> Result<SelfTest, SelfTestError> {
    Err(SelfTestError::NoAttempts("macOS"))
}
