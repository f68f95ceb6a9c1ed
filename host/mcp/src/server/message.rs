//! One message of a client, on standard input and over HTTP alike: its bounds, checked before it is parsed into values, and
//! its parts. What is beyond the bounds or no message is refused with a JSON-RPC error.

use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientJsonRpcMessage, ClientRequest,
    ErrorData, GetMeta, JsonRpcMessage, JsonRpcRequest, JsonRpcVersion2_0, RequestId, ServerJsonRpcMessage,
};
use serde::Deserialize;
use serde_json::{Value, json};

use haft_core::json as text;
use haft_core::scan::{MAX_VALUES, Scan};

/// Bytes of one message on standard input: a file to be written, in JSON. What clients take from servers, too.
pub(super) const MAX_LINE: usize = 16 << 20;

/// Values of a message that is no call of a tool. Nothing that clients ask for otherwise has a hundredth
/// of it, and rmcp finds out which of its methods a message fits by trying one after the other on a copy.
const MAX_OTHER_VALUES: usize = 10_000;

/// Messages of a batch: as many as may be under way at once.
pub(super) const MAX_BATCH: usize = 256;

/// The method whose messages may be large.
const CALL: &str = "tools/call";

/// Why a message is not read, where it is beyond the bounds.
pub(super) fn excess(scan: &Scan) -> Option<ErrorData> {
    if scan.method() == Some(CALL) || scan.is_batch() {
        beyond(scan, MAX_VALUES)
    } else {
        beyond(scan, MAX_OTHER_VALUES)
    }
}

fn beyond(scan: &Scan, most: usize) -> Option<ErrorData> {
    (scan.values() > most).then(|| {
        ErrorData::invalid_request(
            format!("a message with more than {most} values: send fewer at once"),
            None,
        )
    })
}

/// Why a message is not read that is longer than any that is.
pub(super) fn too_long() -> ErrorData {
    ErrorData::invalid_request(format!("a message longer than {} MiB", MAX_LINE >> 20), None)
}

/// A call, as nearly all messages are. rmcp tries every other method first, each on a copy of the whole.
#[derive(Deserialize)]
struct Call {
    jsonrpc: JsonRpcVersion2_0,
    id: RequestId,
    #[serde(rename = "method")]
    _method: CallToolRequestMethod,
    params: CallToolRequestParams,
}

/// What is no message.
pub(super) struct Invalid {
    /// The id of the request that it would have been.
    pub(super) id: Option<RequestId>,
    pub(super) error: ErrorData,
    /// Whether it would have been a notification.
    pub(super) is_notification: bool,
}

/// The message that `bytes` are, which `scan` has passed over.
///
/// # Errors
/// They are none.
pub(super) fn parse(bytes: &[u8], scan: &Scan) -> Result<ClientJsonRpcMessage, Box<Invalid>> {
    let invalid = |error| {
        let id = scan.id().filter(|_| !scan.is_answer());
        Box::new(Invalid { id, error, is_notification: false })
    };
    if scan.method() == Some(CALL) {
        if let Ok(call) = serde_json::from_slice::<Call>(bytes) {
            return Ok(JsonRpcMessage::Request(call.into_request()));
        }
        if let Some(error) = beyond(scan, MAX_OTHER_VALUES) {
            return Err(invalid(error));
        }
    }
    if let Ok(message) = serde_json::from_slice(bytes) {
        return Ok(message);
    }
    // What is no character is replaced, and may be all that was wrong.
    let value =
        text::read(bytes).map_err(|error| invalid(ErrorData::parse_error(error.to_string(), None)))?;
    serde_json::from_value(value.clone()).map_err(|_| Box::new(Invalid::of(&value)))
}

impl Call {
    fn into_request(self) -> JsonRpcRequest<ClientRequest> {
        let Self { jsonrpc, id, mut params, .. } = self;
        let meta = params.meta.take();
        let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        if let Some(meta) = meta {
            *request.get_meta_mut() = meta;
        }
        JsonRpcRequest { jsonrpc, id, request }
    }
}

impl Invalid {
    /// What is wrong with a value that is no message.
    fn of(value: &Value) -> Self {
        let id = value.get("id").and_then(|id| RequestId::deserialize(id).ok());
        let method = value.get("method").and_then(Value::as_str);
        let error = if value.is_array() {
            let why = format!(
                "expected one message: a batch is of a session of 2025-03-26, and has 1 to {MAX_BATCH} messages"
            );
            ErrorData::invalid_request(why, None)
        } else if let Some(method) = method {
            ErrorData::invalid_params(format!("these are no parameters of `{method}`"), None)
        } else {
            ErrorData::invalid_request("not a message of JSON-RPC 2.0", None)
        };
        let is_notification = id.is_none() && value.get("method").is_some();
        Self { id, error, is_notification }
    }
}

/// The error as a message. Where the id could not be read it is null, as JSON-RPC 2.0 has it; 2026-07-28
/// leaves it out.
pub(super) fn refusal(id: Option<RequestId>, error: ErrorData, is_stateless: bool) -> Value {
    match id {
        None if !is_stateless => json!({"jsonrpc": "2.0", "id": null, "error": error}),
        id => {
            let message: ServerJsonRpcMessage = JsonRpcMessage::error(error, id);
            json!(message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S11: JSON-RPC 2.0, section 5.1.
    #[test]
    fn s11_what_is_wrong_is_told_by_its_code() {
        for (body, id, code) in [
            ("{", None, -32700),
            ("", None, -32700),
            ("\u{feff}x", None, -32700),
            ("[]", None, -32600),
            ("7", None, -32600),
            (r#"{"id": 7}"#, Some(RequestId::Number(7)), -32600),
            (
                r#"{"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": 1}"#,
                Some(RequestId::Number(7)),
                -32602,
            ),
        ] {
            let body = body.as_bytes();
            let Err(invalid) = parse(body, &Scan::from_message(body)) else { panic!("{body:?}") };
            assert_eq!((invalid.id, invalid.error.code.0), (id, code), "{body:?}");
        }
        let bytes = b"{\"a\": \"\xff\"}";
        assert!(
            parse(bytes, &Scan::from_message(bytes)).is_err_and(|invalid| invalid.error.code.0 == -32600)
        );
    }
}
