//! The hook that writes a call down before it runs. A call that cannot be written down is not run: after a crash
//! it would be run again.

use std::io;
use std::sync::Arc;

use crate::call::ToolCall;

/// Where a call is written down right before its tool runs: found, checked and, where a person had to approve,
/// approved. Nowhere by default. Clones write to the same place.
#[derive(Clone, Default)]
pub struct Ledger(Option<Arc<Enter>>);

type Enter = dyn Fn(&ToolCall) -> io::Result<()> + Send + Sync;

impl Ledger {
    /// Enters every call with `enter`. A call that cannot be entered does not run.
    pub fn to(enter: impl Fn(&ToolCall) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(enter)))
    }

    /// Writes down that `call` runs from now on.
    pub fn enter(&self, call: &ToolCall) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |enter| enter(call))
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ledger").field(&self.0.is_some()).finish()
    }
}
