//! Answers bodies that rmcp does not accept as a message with the JSON-RPC error that fits.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{JsonRpcError, RequestId};
use serde::Deserialize;
use serde_json::Value;

use super::refusal::HttpResponse;
use crate::server::bounds::MAX_BATCH;
use haft_core::json;

const JSON: &str = "application/json";

/// Whether a body is said to be JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(JSON)
}

/// The answer to a body of JSON that rmcp does not take for a message.
pub(super) fn error_response(body: &[u8]) -> HttpResponse {
    let (id, error) = parse_error(body);
    tracing::info!(code = error.code.0, why = %error.message, "message refused");
    let text = serde_json::to_vec(&JsonRpcError::new(id, error)).unwrap_or_default();
    let mut answer = Response::new(Full::new(Bytes::from(text)).boxed());
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    answer
}

/// What is wrong with it, and the request that it would have been.
fn parse_error(body: &[u8]) -> (Option<RequestId>, ErrorData) {
    let value = match json::read(body) {
        Ok(value) => value,
        Err(error) => return (None, ErrorData::parse_error(error.to_string(), None)),
    };
    let id = value.get("id").and_then(|id| RequestId::deserialize(id).ok());
    let error = if value.is_array() {
        ErrorData::invalid_request(
            format!(
                "expected one message: a batch is of a session of 2025-03-26, and has 1 to {MAX_BATCH} messages"
            ),
            None,
        )
    } else if let Some(method) = value.get("method").and_then(Value::as_str) {
        ErrorData::invalid_params(format!("these are no parameters of `{method}`"), None)
    } else {
        ErrorData::invalid_request("not a message of JSON-RPC 2.0", None)
    };
    (id, error)
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
            (r#"{"jsonrpc": "2.0", "id": 7, "method": "tools/call"}"#, Some(RequestId::Number(7)), -32602),
        ] {
            let (found, error) = parse_error(body.as_bytes());
            assert_eq!((found, error.code.0), (id, code), "{body}");
        }
        assert_eq!(parse_error(b"{\"a\": \"\xff\"}").1.code.0, -32600);
    }
}
