//! macOS: its sandbox restricts complete processes, so that only the preopened directories restrict
//! guests.

use crate::threads::landlock::{FirstState, LandlockState};
use crate::threads::writable::Writable;

/// No rules.
pub(crate) struct LandlockRules;

impl LandlockRules {
    pub(crate) fn new(_: &Writable) -> Self {
        Self
    }

    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "the same signature as on Linux")]
    pub(crate) fn restrict_thread(&self, verdict: &FirstState) -> Result<(), String> {
        let reason = "macOS restricts whole processes, not single threads".into();
        verdict.get_or_init(|| LandlockState::None { reason });
        Ok(())
    }
}
