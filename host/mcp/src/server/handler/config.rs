//! The server's description of itself: name, capabilities and instructions to models.

use rmcp::model::{Implementation, JsonObject, SKILLS_EXTENSION_ID, ServerCapabilities, ServerConfig};

use crate::server::snapshot::ToolSnapshot;

/// Returns the server's capabilities, name and instructions.
pub(super) fn server_config(snapshot: &ToolSnapshot) -> ServerConfig {
    let mut capabilities = ServerCapabilities::default();
    capabilities.logging = Some(JsonObject::new());
    capabilities.tools.get_or_insert_default().list_changed = Some(true);
    // Without offers clients need not ask. Unlisted servers may have some.
    let (offers, is_complete) = (snapshot.offers(), snapshot.is_complete());
    if !offers.is_empty() || !is_complete {
        capabilities.prompts.get_or_insert_default().list_changed = Some(true);
        let resources = capabilities.resources.get_or_insert_default();
        resources.list_changed = Some(true);
        resources.subscribe = (offers.watches || !is_complete).then_some(true);
        capabilities.completions = (offers.completes || !is_complete).then(JsonObject::new);
    }
    let of_skills = || JsonObject::from_iter([("directoryRead".to_owned(), true.into())]);
    if !offers.skills().is_empty() {
        capabilities.extensions = Some([(SKILLS_EXTENSION_ID.to_owned(), of_skills())].into());
    }
    let info = snapshot.info();
    let mut own = Implementation::new("haft", env!("CARGO_PKG_VERSION"));
    own.title.clone_from(&info.title);
    ServerConfig::new(capabilities).with_server_info(own).with_instructions(snapshot.instructions())
}
