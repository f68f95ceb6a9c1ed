//! Hooks with the tools whose calls they see. The caller supplies the list of hooks.

use std::sync::Arc;

use haft_core::tool::{Hook, Toolbox};
use haft_manifest::ToolPattern;

/// A hook, and the tools whose calls it sees.
#[derive(Clone)]
pub(super) struct Watching {
    pub(super) tools: Vec<ToolPattern>,
    pub(super) hook: Arc<dyn Hook>,
    /// Whether the hook is unavailable, so that every call that it should see is refused.
    pub(super) is_absent: bool,
}

impl Watching {
    /// Returns whether the hook sees the calls of `tool`.
    pub(super) fn sees(&self, tool: &str) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(tool))
    }
}

/// Returns the tools with these hooks, in the order of program.toml.
pub(super) fn on(tools: &Toolbox, hooks: &[Watching]) -> Toolbox {
    hooks.iter().fold(tools.clone(), |tools, watching| tools.hooked(&watching.tools, &watching.hook))
}

impl std::fmt::Debug for Watching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tools, hook, is_absent } = self;
        let mut shown = f.debug_struct("Watching");
        shown.field("tools", tools).field("hook", &hook.name()).field("is_absent", is_absent).finish()
    }
}
