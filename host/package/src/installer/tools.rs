//! The interface to the caller that lists tools: this crate runs no components.

use async_trait::async_trait;

use crate::disclosure::ToolDisclosure;
use crate::{Offered, Pin};
use haft_core::call::ToolDef;

/// Lists the tools of content that is not part of a program yet. An implementation runs components without any
/// rights.
#[async_trait]
pub trait ToolLister: Send + Sync {
    /// Lists all tools of `offered`, with the names and descriptions that a model receives.
    ///
    /// # Errors
    /// A component cannot be loaded, or does not list its tools.
    async fn list_tools(&self, offered: &Offered) -> anyhow::Result<Vec<ToolDisclosure>>;

    /// Returns the tools of a component that was listed before and may be gone; `None` if they are unknown.
    fn remembered_tools(&self, pin: &Pin) -> Option<Vec<ToolDef>>;
}
