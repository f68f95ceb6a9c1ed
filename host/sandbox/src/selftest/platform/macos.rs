//! macOS: no attempts yet. Those of Linux use mechanisms of Linux.

use std::path::Path;
use std::process::ExitCode;

use crate::confine::Confiner;
use crate::selftest::{SelfTest, SelfTestError};

/// Returns `None`: no process is started for attempts.
pub(crate) fn entry() -> Option<ExitCode> {
    None
}

/// Returns the error that there are no attempts.
pub async fn run(_: &Confiner, _: &Path, _: &Path) -> Result<SelfTest, SelfTestError> {
    Err(SelfTestError::NoAttempts("macOS"))
}
