//! A call on its way to workers, as its caller made it.

use haft_core::call::ToolCall;
use haft_core::tool::{Context, ToolError};

use super::Gate;
use super::fleet::Wanted;

/// A call on its way to workers.
pub(super) struct Outgoing<'a> {
    pub(super) gate: &'a Gate,
    pub(super) wanted: &'a Wanted,
    pub(super) call: &'a ToolCall,
    pub(super) context: &'a Context<'a>,
}

impl Outgoing<'_> {
    /// An error of haft's own about this call.
    pub(super) fn error(&self, end: &str) -> ToolError {
        ToolError::Host(format!("`{}` {end}", self.wanted.tool))
    }
}
