//! What the server says of itself, and which methods it answers in which era.

#![expect(
    deprecated,
    reason = "logging is what clients of today show; later revisions ask for it call by call"
)]

use rmcp::model::{ConstString, Implementation, ServerCapabilities, ServerConfig};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use crate::server::snapshot::ToolSnapshot;
use haft_core::tool::{Keep, clip};

/// Characters of a client's word that an error repeats.
const MAX_SHOWN: usize = 200;

/// The methods that are answered.
pub(super) const METHODS: &[&str] = &[
    "initialize",
    "server/discover",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "logging/setLevel",
];

/// The methods that are answered where there are no sessions (2026-07-28).
pub(super) const LATER_METHODS: &[&str] = &[
    "server/discover",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "subscriptions/listen",
];

/// The methods that are answered where calls may become tasks.
pub(super) const TASK_METHODS: &[&str] = &["tasks/get", "tasks/update", "tasks/cancel"];

/// Whether the client opens no session and sends everything with each call (2026-07-28).
pub(super) fn is_sessionless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// The answer to requests for unsupported lists: an empty one, since many clients ask anyway and take an error for a
/// broken server; later revisions are strict.
pub(super) fn none<T: Default, M: ConstString>(context: &RequestContext<RoleServer>) -> Result<T, ErrorData> {
    if is_sessionless(context) { Err(ErrorData::method_not_found::<M>()) } else { Ok(T::default()) }
}

/// A client's text, cut for an error message.
pub(super) fn bounded_text(word: &str) -> String {
    clip(word, MAX_SHOWN, Keep::Head)
}

/// The server's capabilities, name and instructions.
pub(super) fn server_config(snapshot: &ToolSnapshot, has_tasks: bool) -> ServerConfig {
    let usual = ServerCapabilities::builder().enable_logging().enable_tools().enable_tool_list_changed();
    let mut capabilities = if has_tasks { usual.enable_tasks().build() } else { usual.build() };
    // Of those that offer none clients need not ask. What is not listed yet may offer some.
    if !snapshot.offers().is_empty() || !snapshot.is_complete() {
        let more = ServerCapabilities::builder().enable_prompts().enable_prompts_list_changed();
        let more = more.enable_resources().enable_resources_list_changed().build();
        (capabilities.prompts, capabilities.resources) = (more.prompts, more.resources);
    }
    let info = snapshot.info();
    let mut own = Implementation::new("haft", env!("CARGO_PKG_VERSION"));
    own.title.clone_from(&info.title);
    ServerConfig::new(capabilities).with_server_info(own).with_instructions(info.instructions.clone())
}
