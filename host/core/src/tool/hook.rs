//! Hooks: what sees the calls of tools, and may refuse them. A hook changes nothing of a call, and one that cannot answer
//! refuses: a guard that is not there lets nobody through.

use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Client, Keep, Notes, clip};
use crate::call::{ToolCall, ToolResult};

/// Sees calls, and may refuse them.
#[async_trait]
pub trait Hook: Send + Sync {
    /// What a person calls it.
    fn name(&self) -> &str;

    /// Whether the call may run. Ends within a time of the hook's own; dropping the future stops it.
    async fn before(&self, seen: &Seen<'_>) -> Result<(), Objection>;

    /// Told how the call ended. An error is why the hook could not be told.
    async fn after(&self, seen: &Seen<'_>, result: &ToolResult, duration: Duration) -> Result<(), String>;
}

/// A call as a hook sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The call, under the tool's own name and without secrets.
    pub call: &'a ToolCall,
    /// Where the tool comes from, for people.
    pub origin: &'a str,
    /// Cancelled when the caller no longer wants the answer; after the call, never.
    pub cancel: &'a CancellationToken,
    /// The client that makes the call.
    pub client: Client,
}

/// Why a hook does not let a call run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objection {
    /// It says no, in its own words.
    Refused(String),
    /// It gave no answer; why, in haft's words.
    Failed(String),
}

/// Characters of a hook's reason. A model reads it; what is longer is no reason.
const MAX_REASON: usize = 2000;

/// Asks the hooks one after the other. The answer to the call, where one does not let it run.
pub(super) async fn before(
    hooks: &[std::sync::Arc<dyn Hook>],
    seen: &Seen<'_>,
    notes: &Notes,
) -> Result<(), String> {
    for hook in hooks {
        let (tool, name) = (&seen.call.tool, hook.name());
        match hook.before(seen).await {
            Ok(()) => {}
            Err(Objection::Refused(reason)) => {
                notes.decision(|| format!("refused by hook `{name}`"));
                let reason = clip(&reason, MAX_REASON, Keep::Ends);
                return Err(format!(
                    "`{tool}` did not run: the hook `{name}` refuses the call and says: {reason}"
                ));
            }
            Err(Objection::Failed(why)) => {
                notes.decision(|| format!("refused, since hook `{name}` gave no answer: {why}"));
                let why = clip(&why, MAX_REASON, Keep::Ends);
                return Err(format!(
                    "`{tool}` did not run: the hook `{name}` sees its calls and gave no answer: {why}"
                ));
            }
        }
    }
    Ok(())
}

/// Tells the hooks, one after the other. What goes wrong is logged.
pub(super) async fn after(
    hooks: &[std::sync::Arc<dyn Hook>],
    seen: &Seen<'_>,
    result: &ToolResult,
    duration: Duration,
) {
    for hook in hooks {
        if let Err(why) = hook.after(seen, result, duration).await {
            tracing::warn!(hook = hook.name(), tool = seen.call.tool, "a hook was not told of a call: {why}");
        }
    }
}

#[cfg(test)]
mod tests;
