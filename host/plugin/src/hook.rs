//! Hooks that are plugins: components of the world `hook`, whose two functions are called like tools, each in a
//! fresh instance with the hook's own rights and limits. Models are not offered hooks.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::contract::Contract;
use crate::denials::GrantPlace;
use crate::plugin::Plugin;
use crate::tool::PluginTool;
use haft_core::call::{ToolCall, ToolResult};
use haft_core::event::Events;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::{
    Caller, Context, Hook, Keep, Notes, Objection, Seen, Session, Tool, ToolError, Whole, clip,
};

const BEFORE: &str = "before-call";
const AFTER: &str = "after-call";

/// Maximum number of characters of an answer that a hook sees, enough for most checks of a guard.
const MAX_CONTENT: usize = 20_000;

/// Time by which a hook may exceed its own limit: for loading its code, and for stopping it.
const GRACE: Duration = Duration::from_secs(10);

/// A plugin that is a hook.
pub struct PluginHook {
    name: String,
    before: PluginTool,
    after: PluginTool,
    grant: Grant,
    limits: Limits,
}

impl PluginHook {
    /// Returns the hook of `plugin`, called `name`, with its grant and limits; `None` if the plugin is not a hook.
    pub fn new(plugin: &Plugin, name: &str, grant: Grant, limits: Limits) -> Option<Self> {
        let part = |own: &str| {
            let def = plugin.tools().iter().find(|tool| tool.name == own)?;
            Some(PluginTool::new(plugin, def, format!("{name}__{own}"), GrantPlace::Plugin))
        };
        let is_hook = plugin.contract() == Contract::Hook;
        let (before, after) = is_hook.then(|| part(BEFORE).zip(part(AFTER))).flatten()?;
        Some(Self { name: name.to_owned(), before, after, grant, limits })
    }

    async fn call(&self, part: &PluginTool, seen: &Seen<'_>, arguments: Value) -> Result<(), ToolError> {
        let call = ToolCall { id: seen.call.id.clone(), tool: part.def().name.clone(), arguments };
        let (events, notes, whole) = (Events::none(), Notes::default(), Whole::default());
        let Self { grant, limits, .. } = self;
        let Seen { cancel, client, .. } = *seen;
        // A component makes no calls of tools.
        let session = Session::default();
        let caller = Caller::new(&session);
        let (events, notes, whole) = (&events, &notes, &whole);
        let context =
            Context { grant, limits, events, cancel, notes, client, whole, caller, approved: false };
        let ended = tokio::time::timeout(limits.time + GRACE, part.call(&call, &context)).await;
        let overdue = |_| ToolError::Host(format!("it did not end within {:?}", limits.time + GRACE));
        ended.map_err(overdue).and_then(|answer| answer).map(|_| ())
    }
}

#[async_trait]
impl Hook for PluginHook {
    fn name(&self) -> &str {
        &self.name
    }

    async fn before(&self, seen: &Seen<'_>) -> Result<(), Objection> {
        let called = self.call(&self.before, seen, json!({ "call": call(seen) })).await;
        called.map_err(|error| match error {
            ToolError::ExecutionFailed(reason) => Objection::Refused(reason),
            error @ (ToolError::InvalidArguments(_) | ToolError::Host(_)) => {
                Objection::Failed(error.to_string())
            }
        })
    }

    async fn after(&self, seen: &Seen<'_>, result: &ToolResult, duration: Duration) -> Result<(), String> {
        let outcome = json!({
            "content": clip(&result.content, MAX_CONTENT, Keep::Ends),
            "failed": result.is_error,
            "milliseconds": u32::try_from(duration.as_millis()).unwrap_or(u32::MAX),
        });
        let arguments = json!({ "call": call(seen), "outcome": outcome });
        self.call(&self.after, seen, arguments).await.map_err(|error| error.to_string())
    }
}

fn call(seen: &Seen<'_>) -> Value {
    let ToolCall { id, tool, arguments } = seen.call;
    json!({ "id": id, "tool": tool, "arguments": arguments.to_string(), "origin": seen.origin })
}

impl std::fmt::Debug for PluginHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginHook").field("name", &self.name).finish_non_exhaustive()
    }
}
