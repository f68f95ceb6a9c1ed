//! The protocol of a server, and the JSON-RPC messages of MCP: classifies a server's message.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use haft_core::net::excerpt;

/// Maximum number of characters of a server's words in an error of haft's own.
const MAX_EXCERPT: usize = 300;

pub(super) enum Message {
    /// The answer to the request with our id.
    Answer(Result<Value, Failure>),
    Notification {
        method: String,
        params: Value,
    },
    /// A request to the client.
    Request {
        method: String,
    },
    /// An invalid message, or a message for another request.
    Other,
}

/// The reason why a request has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// The guest trapped, was stopped, or gave no answer.
    Ended(wasmtime::Error),
    /// The server answered with an error of JSON-RPC.
    Refused { code: i64, message: String },
    /// The answer is not MCP; the text can follow "it is no MCP server: ".
    NotMcp(String),
    /// The server has no tools, only the listed offers.
    NoTools(String),
}

impl Message {
    /// Classifies `value` for the sender of the request `id`.
    pub(super) fn read(mut value: Value, id: u64) -> Self {
        let method = value.get("method").and_then(Value::as_str).map(str::to_owned);
        let own_id = value.get("id").filter(|id| !id.is_null());
        match (method, own_id.cloned()) {
            (Some(method), Some(_)) => Self::Request { method },
            (Some(method), None) => {
                let params = value.get_mut("params").map(Value::take).unwrap_or_default();
                Self::Notification { method, params }
            }
            (None, own) if own.as_ref().is_none_or(|own| *own == id) => Self::answer(value, own.is_some()),
            (None, _) => Self::Other,
        }
    }

    /// Returns the answer. An error without an id belongs to the only running request: the server could not read
    /// it.
    fn answer(mut value: Value, has_id: bool) -> Self {
        // Other data of a server may also have a field `error`.
        let is_message = has_id || value.get("jsonrpc").and_then(Value::as_str) == Some("2.0");
        if let Some(error) = value.get("error").filter(|error| is_message && error.is_object()) {
            let text = error.get("message").and_then(Value::as_str).unwrap_or("it gives no reason");
            let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
            return Self::Answer(Err(Failure::Refused { code, message: text.to_owned() }));
        }
        match value.get_mut("result").filter(|result| has_id && result.is_object()) {
            Some(result) => Self::Answer(Ok(result.take())),
            None => Self::Other,
        }
    }
}

impl Failure {
    pub(super) fn wrong(method: &str, why: &str) -> Self {
        Self::NotMcp(format!("its answer to `{method}` {why}"))
    }
}

/// Returns a server's words, within haft's own.
pub(super) fn shown(text: &str) -> String {
    excerpt(text, MAX_EXCERPT)
}

/// The newest version of the protocol with a greeting.
pub(super) const GREETING: &str = "2025-11-25";

/// The version without.
pub(super) const STATELESS: &str = "2026-07-28";

/// The protocol of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manner {
    /// The path of the server's endpoint.
    pub(super) path: String,
    /// The protocol version that both sides support.
    pub(super) version: String,
    pub(super) sessions: Sessions,
}

/// The requests before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Sessions {
    /// The server opens no session, so that no request needs an earlier one.
    None,
    /// Each instance needs `initialize` first.
    Greeted,
    /// Without sessions; each request contains the client's metadata of `initialize`.
    Stateless,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let read = |value: Value| Message::read(value, 7);
        assert!(matches!(read(json!({ "id": 7, "result": {} })), Message::Answer(Ok(_))));
        assert!(matches!(read(json!({ "id": 8, "result": {} })), Message::Other));
        assert!(matches!(read(json!({ "id": "7", "result": {} })), Message::Other));
        assert!(matches!(read(json!({ "result": {} })), Message::Other), "a result has an id");
        assert!(matches!(read(json!({ "error": { "code": 404 } })), Message::Other), "not of this protocol");
        let refused =
            read(json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "no" } }));
        assert!(matches!(refused, Message::Answer(Err(Failure::Refused { code: -32700, .. }))));
        assert!(matches!(read(json!({ "id": 1, "method": "ping" })), Message::Request { .. }));
        let told = read(json!({ "method": "notifications/message", "params": { "data": "x" } }));
        assert!(matches!(told, Message::Notification { params, .. } if params == json!({ "data": "x" })));
        for nonsense in
            [json!(null), json!([]), json!("x"), json!({ "id": 7 }), json!({ "id": 7, "result": 1 })]
        {
            assert!(matches!(read(nonsense.clone()), Message::Other), "{nonsense}");
        }
    }
}
