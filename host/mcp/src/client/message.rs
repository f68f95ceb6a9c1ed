//! Parses the messages of servers, for all transports: a JSON-RPC message, or a batch of them (2025-03-26). `[]`
//! instead of an empty object, as PHP writes it, is accepted, and an invalid answer ends its request with an error of
//! haft. Makes the requests of haft, as rmcp's types, from which rmcp's HTTP transport reads the method and the name.
#![expect(deprecated, reason = "servers of all versions are subscribed to")]

use rmcp::model::{
    CallToolRequest, CancelTaskRequest, ClientRequest, CompleteRequest, CustomResult, ErrorData,
    GetPromptRequest, GetTaskRequest, JsonObject, ListPromptsRequest, ListResourceTemplatesRequest,
    ListResourcesRequest, ListSkillsRequest, ListToolsRequest, ReadResourceRequest, RequestId,
    ServerJsonRpcMessage, SubscribeRequest, UnsubscribeRequest, UpdateTaskRequest,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::ServerError;
use super::calls::shortened;
use haft_core::json;
use haft_core::scan::{MAX_VALUES, Scan};

/// Maximum number of messages of a batch that are read.
const MAX_BATCH: usize = 1000;

/// The places of objects in a message. `*` is every member, or every element.
const OBJECTS: &[&str] = &[
    "params",
    "params/_meta",
    "result/_meta",
    "result/capabilities",
    "result/capabilities/*",
    "result/content/*/_meta",
    "result/content/*/annotations",
    "result/content/*/resource/_meta",
    "result/tools/*/_meta",
    "result/tools/*/annotations",
    "result/tools/*/execution",
    "result/tools/*/inputSchema",
    "result/tools/*/outputSchema",
];

/// Returns the messages in `text`; a malformed answer becomes an error for its request.
///
/// # Errors
/// `text` has no message, in words that follow `it`.
pub(super) fn read(text: &[u8]) -> Result<Vec<ServerJsonRpcMessage>, String> {
    let scan = Scan::from_message(text);
    let id = scan.id().filter(|_| scan.method().is_none());
    if scan.values > MAX_VALUES {
        return answered(id, format!("the answer has more than {MAX_VALUES} values"));
    }
    // Notifications and requests are read once; answers keep what rmcp's types do not know.
    if scan.method().is_some()
        && !may_have_empty(text)
        && let Ok(message) = serde_json::from_slice(text)
    {
        return Ok(vec![message]);
    }
    let value = match json::read(text) {
        Ok(value) => value,
        Err(error) => return answered(id, format!("the server's answer is malformed: {error}")),
    };
    match value {
        Value::Array(all) => {
            let all: Vec<_> = all.into_iter().take(MAX_BATCH).filter_map(message).collect();
            if all.is_empty() { Err("sent a batch without a message".to_owned()) } else { Ok(all) }
        }
        value => match message(value) {
            Some(message) => Ok(vec![message]),
            None => {
                answered(id, "the server's answer is malformed: it is not a JSON-RPC 2.0 message".to_owned())
            }
        },
    }
}

/// Returns an error instead of the answer to the request `id`, so that it ends.
fn answered(id: Option<RequestId>, why: String) -> Result<Vec<ServerJsonRpcMessage>, String> {
    match id {
        Some(id) => Ok(vec![failure(why, id)]),
        None => Err(why),
    }
}

pub(super) fn failure(why: String, id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::internal_error(why, None), Some(id))
}

fn message(mut value: Value) -> Option<ServerJsonRpcMessage> {
    for place in OBJECTS {
        mend(&mut value, place);
    }
    let kept = value.get_mut("result").is_some_and(keep_whole);
    let is_of_protocol = value.get("jsonrpc").is_some_and(|version| version == "2.0");
    if kept && is_of_protocol && value.pointer("/result/tools").is_none() {
        // Not tried as one type after the other, because a message may have many megabytes.
        let id = serde_json::from_value(value.get_mut("id")?.take()).ok()?;
        let result = CustomResult::new(value.get_mut("result")?.take());
        return Some(ServerJsonRpcMessage::response(result.into(), id));
    }
    serde_json::from_value(value).ok()
}

/// The only key of a result that is kept unmodified. rmcp's types drop unknown fields, and rewrite numbers.
const WHOLE: &str = "haft/whole";

/// The keys of results that are kept unmodified. rmcp itself needs none of them.
const KEPT: &[&str] = &[
    "completion",
    "content",
    "contents",
    "messages",
    "prompts",
    "resourceTemplates",
    "resources",
    "structuredContent",
    "tools",
];

/// Moves a result to the key [`WHOLE`], which rmcp leaves unmodified. A list of tools also stays in its place,
/// because the HTTP transport finds the arguments for headers there. Returns whether the result was moved.
fn keep_whole(result: &mut Value) -> bool {
    let Some(fields) = result.as_object() else { return false };
    let is_asking = fields.get("resultType").is_some_and(|kind| kind != "complete");
    if is_asking || !KEPT.iter().any(|key| fields.contains_key(*key)) {
        return false;
    }
    let tools = fields.get("tools").cloned();
    let whole = Value::Object(Map::from_iter([(WHOLE.to_owned(), result.take())]));
    *result = match tools {
        Some(tools) => json!({ "tools": tools, "_meta": whole }),
        None => whole,
    };
    true
}

/// Returns the unmodified result, from either place.
pub(super) fn whole(mut result: Value) -> Value {
    let take = |result: &mut Value, path: &str| result.pointer_mut(path).map(Value::take);
    let (own, listed) = ("/haft~1whole", "/_meta/haft~1whole");
    take(&mut result, own).or_else(|| take(&mut result, listed)).unwrap_or(result)
}

fn may_have_empty(text: &[u8]) -> bool {
    let rests = text.split(|byte| *byte == b'[').skip(1);
    let mut firsts = rests.map(|rest| rest.iter().find(|byte| !byte.is_ascii_whitespace()));
    firsts.any(|first| first == Some(&b']'))
}

/// Replaces an empty list at `place` by an empty object.
fn mend(value: &mut Value, place: &str) {
    let (key, rest) = place.split_once('/').unwrap_or((place, ""));
    let each = |value: &mut Value| match value {
        Value::Array(items) if rest.is_empty() && items.is_empty() => *value = Value::Object(Map::new()),
        value if !rest.is_empty() => mend(value, rest),
        _ => {}
    };
    match value {
        Value::Object(fields) if key == "*" => fields.values_mut().for_each(each),
        Value::Array(items) if key == "*" => items.iter_mut().for_each(each),
        Value::Object(fields) => fields.get_mut(key).into_iter().for_each(each),
        _ => {}
    }
}

/// Returns the text of an answer for a message: the error's text in JSON, the text of an HTML page. At most a few
/// lines.
pub(super) fn words(text: &[u8]) -> String {
    let said = json::read(text).ok().and_then(|value| {
        let at = |path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
        ["/error/message", "/error_description", "/error", "/message", "/detail", "/title"]
            .into_iter()
            .find_map(at)
    });
    let said = said.unwrap_or_else(|| {
        let (mut plain, mut is_tag) = (String::new(), false);
        for c in String::from_utf8_lossy(text.get(..4096).unwrap_or(text)).chars() {
            match c {
                '<' => is_tag = true,
                '>' if is_tag => {
                    is_tag = false;
                    plain.push(' ');
                }
                c if !is_tag => plain.push(c),
                _ => {}
            }
        }
        plain.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    shortened(said.chars().take(300).collect())
}

/// Returns the request `method` with `params`.
///
/// # Errors
/// `params` are invalid for the method.
pub(super) fn request_of(method: &str, params: &JsonObject) -> Result<ClientRequest, ServerError> {
    fn read<P: DeserializeOwned>(method: &str, params: &JsonObject) -> Result<P, ServerError> {
        serde_json::from_value(Value::Object(params.clone())).map_err(|error| ServerError::Answer {
            code: -32602,
            message: format!("invalid parameters of `{method}`: {error}"),
            data: None,
        })
    }
    Ok(match method {
        "tools/call" => CallToolRequest::new(read(method, params)?).into(),
        "tools/list" => ListToolsRequest::with_param(read(method, params)?).into(),
        "prompts/list" => ListPromptsRequest::with_param(read(method, params)?).into(),
        "prompts/get" => GetPromptRequest::new(read(method, params)?).into(),
        "resources/list" => ListResourcesRequest::with_param(read(method, params)?).into(),
        "resources/templates/list" => ListResourceTemplatesRequest::with_param(read(method, params)?).into(),
        "resources/read" => ReadResourceRequest::new(read(method, params)?).into(),
        "resources/subscribe" => SubscribeRequest::new(read(method, params)?).into(),
        "resources/unsubscribe" => UnsubscribeRequest::new(read(method, params)?).into(),
        "skills/list" => ListSkillsRequest::with_param(read(method, params)?).into(),
        "tasks/get" => GetTaskRequest::new(read(method, params)?).into(),
        "tasks/update" => UpdateTaskRequest::new(read(method, params)?).into(),
        "tasks/cancel" => CancelTaskRequest::new(read(method, params)?).into(),
        "completion/complete" => CompleteRequest::new(read(method, params)?).into(),
        _ => return Err(ServerError::Protocol(format!("haft does not support `{method}`"))),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_value(text: &str) -> Result<Value, String> {
        read(text.as_bytes()).map(|all| serde_json::to_value(all).unwrap())
    }

    /// (B33, B07): an empty list in place of an object is read as an object, and half a surrogate pair as U+FFFD.
    #[test]
    fn messages_are_read_as_they_are_meant() {
        for (text, meant) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":[],"logging":[]},"serverInfo":{"name":"s","version":"1"},"_meta":[]}}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"},"_meta":{}}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":[ ],"annotations":[]}]}}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{},"annotations":{}}]}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a \ud83d []","annotations":[]}]}}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a \ufffd []","annotations":{}}]}}"#,
            ),
        ] {
            assert_eq!(read_value(text).unwrap(), read_value(meant).unwrap(), "{text}");
        }
        let empty = read_value(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#).unwrap();
        assert_eq!(empty[0]["result"]["tools"], json!([]));
    }

    #[test]
    fn what_is_no_message_is_told_in_words_of_haft() {
        let error =
            |text: &str| read_value(text).unwrap()[0]["error"]["message"].as_str().unwrap().to_owned();
        assert_eq!(
            error(r#"{"jsonrpc":"2.0","id":1,"result":"#),
            "the server's answer is malformed: it ends in the middle of a value"
        );
        assert_eq!(
            error(r#"{"id":1,"result":7}"#),
            "the server's answer is malformed: it is not a JSON-RPC 2.0 message"
        );
        for text in ["ping", "{}", r#"{"type":"heartbeat"}"#, "[]", "[1]", "2026-01-01T00:00:00Z", ""] {
            assert!(read_value(text).is_err(), "{text}");
        }
        assert_eq!(read(br#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}]"#).unwrap().len(), 2);
    }

    #[test]
    fn the_words_of_an_error_are_found_in_every_form() {
        for (text, said) in [
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"not now"}}"#, "not now"),
            (r#"{"error":"gone"}"#, "gone"),
            (r#"{"detail":"no"}"#, "no"),
            (
                "<html><head><title>502</title></head><body><h1>Bad\nGateway</h1></body></html>",
                "502 Bad Gateway",
            ),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(words(text.as_bytes()), said, "{text}");
        }
    }
}
