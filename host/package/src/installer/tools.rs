//! What the installer leaves to its caller: running components to list their tools.

use async_trait::async_trait;

use crate::disclosure::ToolDisclosure;
use crate::{Offered, Pin};
use haft_core::call::ToolDef;

/// Lists the tools of what is not a part of any program yet. An implementation runs components with no rights at all;
/// this crate runs none.
#[async_trait]
pub trait ToolLister: Send + Sync {
    /// All tools of `offered`, under the names and with the descriptions that a model is given.
    ///
    /// # Errors
    /// Where a component cannot be loaded or does not say what its tools are.
    async fn list_tools(&self, offered: &Offered) -> anyhow::Result<Vec<ToolDisclosure>>;

    /// The tools of a component that was listed once and may be gone; `None` where they are unknown.
    fn remembered_tools(&self, pin: &Pin) -> Option<Vec<ToolDef>>;
}
