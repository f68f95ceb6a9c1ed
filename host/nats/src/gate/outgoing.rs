//! A call to a worker, as its caller made it.

use haft_core::call::ToolCall;
use haft_core::tool::{Context, ToolError};

use super::Gate;
use super::fleet::Wanted;

/// A call to a worker.
pub(super) struct Outgoing<'a> {
    pub(super) gate: &'a Gate,
    pub(super) wanted: &'a Wanted,
    pub(super) call: &'a ToolCall,
    pub(super) context: &'a Context<'a>,
}

impl Outgoing<'_> {
    /// Returns an error of haft about this call.
    pub(super) fn error(&self, end: &str) -> ToolError {
        ToolError::Host(format!("`{}` {end}", self.wanted.tool))
    }
}
