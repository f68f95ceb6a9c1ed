//! What the server says of itself, and which methods it answers in which era.

#![expect(
    deprecated,
    reason = "logging is what clients of today show; later revisions ask for it call by call"
)]

use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ClientRequest, ConstString, ErrorCode, Implementation, ProtocolVersion,
    ServerCapabilities, ServerConfig,
};

use super::Answer;
use crate::server::requester::Requester;
use crate::server::snapshot::ToolSnapshot;
use haft_core::tool::{Keep, clip};

/// Characters of a client's word that an error repeats.
const MAX_SHOWN: usize = 200;

/// The methods that are answered.
const METHODS: &[&str] = &[
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
const LATER_METHODS: &[&str] = &[
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
const TASK_METHODS: &[&str] = &["tasks/get", "tasks/update", "tasks/cancel"];

/// The era that a request is of.
#[derive(Clone, Copy)]
pub(super) struct Era {
    /// Whether it is a request of a session.
    pub(super) has_session: bool,
    /// Whether its revision is 2026-07-28 or a later one.
    is_later: bool,
}

impl Era {
    /// That of `request`.
    ///
    /// # Errors
    /// It names a revision that haft does not speak, or lacks what its era says with every request.
    pub(super) fn of(request: &ClientRequest, requester: &Requester) -> Result<Self, ErrorData> {
        let (later, opens) =
            (ProtocolVersion::V_2026_07_28, matches!(request, ClientRequest::InitializeRequest(_)));
        let named = requester.meta.protocol_version().filter(|_| !opens);
        if let Some(named) = named.as_ref().filter(|named| !ProtocolVersion::KNOWN_VERSIONS.contains(named)) {
            return Err(ErrorData::unsupported_protocol_version(
                named.clone(),
                ProtocolVersion::KNOWN_VERSIONS,
            ));
        }
        let is_whole = !opens
            && (requester.session.is_none()
                || matches!(request, ClientRequest::DiscoverRequest(_))
                || named.is_some_and(|named| named >= later));
        let missing = requester.meta.missing_required_keys(&later);
        if is_whole && !missing.is_empty() {
            let missing = missing.join(", ");
            let why = format!("request _meta is missing or has malformed required fields: {missing}");
            return Err(ErrorData::invalid_params(why, None));
        }
        let version = requester.version();
        let has_session = !is_whole && version.as_ref().is_none_or(ProtocolVersion::has_initialize);
        Ok(Self { has_session, is_later: version.is_some_and(|version| version >= later) })
    }

    /// An error where the method `M` is one of earlier revisions alone.
    pub(super) fn is_earlier<M: ConstString>(self) -> Result<(), ErrorData> {
        if self.is_later { Err(ErrorData::method_not_found::<M>()) } else { Ok(()) }
    }

    /// An answer with what its era has in it, and without what it has not.
    pub(super) fn dressed(self, answer: Answer) -> Answer {
        match answer {
            Ok(mut result) if self.is_later => {
                result.fill_missing_cache_hints();
                Ok(result)
            }
            Ok(mut result) => {
                result.strip_result_type_for_legacy_peer();
                Ok(result)
            }
            Err(error) if self.is_later && error.code == ErrorCode::RESOURCE_NOT_FOUND => {
                Err(ErrorData { code: ErrorCode::INVALID_PARAMS, ..error })
            }
            Err(error) => Err(error),
        }
    }
}

/// The revision of a session whose client asks for `asked`: that one where it has sessions, else the last that has.
pub(in crate::server) fn agreed_version(asked: &ProtocolVersion) -> ProtocolVersion {
    let is_spoken = asked.has_initialize() && ProtocolVersion::KNOWN_VERSIONS.contains(asked);
    if is_spoken { asked.clone() } else { ProtocolVersion::LATEST_WITH_INITIALIZE }
}

/// The answer to what is no request that rmcp knows: another method, or one of these with other parameters.
pub(super) fn custom(method: &str, era: Era, has_tasks: bool) -> ErrorData {
    let methods = if era.is_later { LATER_METHODS } else { METHODS };
    if methods.contains(&method) || (has_tasks && TASK_METHODS.contains(&method)) {
        return ErrorData::invalid_params(format!("these are no parameters of `{method}`"), None);
    }
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, bounded_text(method), None)
}

/// The answer to a client that asks for tasks and does not say that it knows them.
pub(super) fn tasks_are_missing() -> ErrorData {
    ErrorData::missing_required_client_capability(ClientCapabilities::builder().enable_tasks().build())
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
