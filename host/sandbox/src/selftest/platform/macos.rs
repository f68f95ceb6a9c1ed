//! macOS: no attempts yet. Those of Linux go by way of what it alone has.

use std::path::Path;
use std::process::ExitCode;

use crate::confine::Confiner;
use crate::selftest::{SelfTest, SelfTestError};

/// No process is started for attempts.
pub(crate) fn entry() -> Option<ExitCode> {
    None
}

/// Makes no attempts, and says so.
pub async fn run(_: &Confiner, _: &Path, _: &Path) -> Result<SelfTest, SelfTestError> {
    Err(SelfTestError::NoAttempts("macOS"))
}
