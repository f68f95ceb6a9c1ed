//! The protocol era of a request: the metadata that it needs, its methods, and the fields of its answer.

use rmcp::ErrorData;
use rmcp::model::{
    ClientRequest, ConstString, CustomResult, ErrorCode, JsonObject, ProtocolVersion, ServerResult,
};
use serde_json::Value;

use super::{Answer, bounded_text, raw};
use crate::server::conversation::Requester;

/// The keys of results that clients of later revisions may keep.
const CACHED: &[&str] =
    &["tools", "prompts", "resources", "resourceTemplates", "contents", "skills", "skill"];

/// The methods that are answered in both eras.
const METHODS: &[&str] = &[
    "server/discover",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "completion/complete",
    "skills/list",
    "skills/get",
    "resources/directory/read",
];

/// The methods that are answered in sessions alone.
const EARLIER_METHODS: &[&str] =
    &["initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// Methods that exist only without sessions (2026-07-28).
const LATER_METHODS: &[&str] = &["subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel"];

/// The era that a request is of.
#[derive(Clone, Copy)]
pub(super) struct Era {
    /// Whether the request belongs to a session.
    pub(super) has_session: bool,
    /// Whether the revision is 2026-07-28 or later.
    pub(super) is_later: bool,
}

impl Era {
    /// Returns the protocol era of `request`, which does not open a session.
    ///
    /// # Errors
    /// The request names a revision that haft does not support, or lacks required metadata.
    pub(super) fn of(request: &ClientRequest, requester: &Requester) -> Result<Self, ErrorData> {
        let (later, named) = (ProtocolVersion::V_2026_07_28, requester.meta.protocol_version());
        if let Some(named) = named.as_ref().filter(|named| !ProtocolVersion::KNOWN_VERSIONS.contains(named)) {
            return Err(ErrorData::unsupported_protocol_version(
                named.clone(),
                ProtocolVersion::KNOWN_VERSIONS,
            ));
        }
        let is_whole = requester.session.is_none()
            || matches!(request, ClientRequest::DiscoverRequest(_))
            || named.is_some_and(|named| named >= later);
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

    /// Returns an error if only earlier revisions have the method `M`.
    pub(super) fn is_earlier<M: ConstString>(self) -> Result<(), ErrorData> {
        if self.is_later { Err(ErrorData::method_not_found::<M>()) } else { Ok(()) }
    }

    /// Returns an answer with the required fields of its revision, without unknown ones.
    pub(super) fn dressed(self, answer: Answer) -> Answer {
        match answer {
            Ok(ServerResult::CustomResult(CustomResult(Value::Object(mut result)))) => {
                self.dress(&mut result);
                Ok(raw(result.into()))
            }
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

    /// Adapts a forwarded result of a server.
    fn dress(self, result: &mut JsonObject) {
        if !self.is_later {
            // Fields that a server sends to haft in a later revision than the client's.
            for key in ["resultType", "ttlMs", "cacheScope"] {
                result.remove(key);
            }
            if let Some(Value::Object(meta)) = result.get_mut("_meta") {
                meta.retain(|key, _| !key.starts_with("io.modelcontextprotocol/server"));
                if meta.is_empty() {
                    result.remove("_meta");
                }
            }
            return;
        }
        result.entry("resultType").or_insert_with(|| "complete".into());
        if CACHED.iter().any(|key| result.contains_key(*key)) {
            result.entry("ttlMs").or_insert_with(|| 0.into());
        }
        if result.contains_key("ttlMs") || result.contains_key("cacheScope") {
            // A server's answer may be public, but haft's depends on the rights of a caller.
            result.insert("cacheScope".to_owned(), "private".into());
        }
    }

    /// Returns the error for a request that rmcp does not parse: an unknown method, or invalid parameters.
    pub(super) fn unparsed(self, method: &str) -> ErrorData {
        let own = if self.is_later { LATER_METHODS } else { EARLIER_METHODS };
        if [METHODS, own].iter().any(|methods| methods.contains(&method)) {
            return ErrorData::invalid_params(format!("invalid parameters of `{method}`"), None);
        }
        ErrorData::new(ErrorCode::METHOD_NOT_FOUND, bounded_text(method), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A shared cache would give one caller the answer for another.
    #[test]
    fn no_server_says_that_its_answer_is_for_everybody() {
        let era = Era { has_session: false, is_later: true };
        for key in ["contents", "content"] {
            let mut result = JsonObject::new();
            result.extend([(key.to_owned(), json!([])), ("cacheScope".to_owned(), "public".into())]);
            era.dress(&mut result);
            assert_eq!(result.get("cacheScope"), Some(&json!("private")));
        }
    }
}
