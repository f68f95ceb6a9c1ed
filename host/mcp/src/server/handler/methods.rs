//! The methods that the server answers, and the error for other methods.

use rmcp::ErrorData;
use rmcp::model::ErrorCode;

use super::{Era, bounded_text};

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

/// Returns the error for a request that rmcp does not parse: an unknown method, or invalid parameters.
pub(super) fn custom(method: &str, era: Era) -> ErrorData {
    let own = if era.is_later { LATER_METHODS } else { EARLIER_METHODS };
    if [METHODS, own].iter().any(|methods| methods.contains(&method)) {
        return ErrorData::invalid_params(format!("invalid parameters of `{method}`"), None);
    }
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, bounded_text(method), None)
}
