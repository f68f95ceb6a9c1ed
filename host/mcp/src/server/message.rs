//! One message of a client, from standard input and over HTTP: its bounds, checked before parsing, its parts, and
//! its answer. A message beyond the bounds or an invalid one is refused with a JSON-RPC error. A tool's result
//! becomes content blocks (text, images, audio and files in the tool's order), and structured data if the client
//! knows its schema.
//!
//! Over HTTP also the protocol revision of a request, and the headers that this revision requires. Up to 2025-11-25
//! a request belongs to a session; from 2026-07-28 on it is self-contained, and its headers repeat a part of it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::HeaderMap;
use hyper::header::HeaderName;
use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, CallToolResult, ClientJsonRpcMessage,
    ClientRequest, ContentBlock, ErrorData, GetMeta, JsonObject, JsonRpcMessage, JsonRpcRequest,
    JsonRpcVersion2_0, ProtocolVersion, RequestId, ResourceContents, ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde_json::{Value, json};

use haft_core::call::{Attachment, ToolResult};
use haft_core::json as text;
use haft_core::scan::{MAX_VALUES, Scan};

/// Maximum number of bytes of one message on standard input: a file to be written, in JSON. Clients have this limit
/// for messages of servers.
pub(super) const MAX_LINE: usize = 16 << 20;

/// Maximum number of values of a message other than a tool call: a hundred times that of any valid one. rmcp
/// determines the method by trying one after the other on a copy.
const MAX_OTHER_VALUES: usize = 10_000;

/// Maximum number of messages in a batch: as many as may run concurrently.
pub(super) const MAX_BATCH: usize = 256;

/// The error for a client whose request panicked.
pub(super) const DEFECT: &str = "haft could not handle the request; this is a bug in haft";

/// The method with possibly large messages.
const CALL: &str = "tools/call";

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// The prefix of headers that repeat an argument.
const PARAMETER: &str = "mcp-param-";

/// The key of a schema that names the header which repeats the argument.
const REPEATED: &str = "x-mcp-header";

/// The revision of a request that names none: the last revision with such requests.
const UNNAMED: ProtocolVersion = ProtocolVersion::V_2025_03_26;

/// Returns the reason why a message beyond the bounds is not read.
pub(super) fn excess(scan: &Scan) -> Option<ErrorData> {
    if scan.method() == Some(CALL) || scan.is_batch() {
        beyond(scan, MAX_VALUES)
    } else {
        beyond(scan, MAX_OTHER_VALUES)
    }
}

fn beyond(scan: &Scan, most: usize) -> Option<ErrorData> {
    (scan.values > most).then(|| {
        ErrorData::invalid_request(
            format!("a message with more than {most} values: send fewer at once"),
            None,
        )
    })
}

pub(super) fn too_long() -> ErrorData {
    ErrorData::invalid_request(format!("a message longer than {} MiB", MAX_LINE >> 20), None)
}

/// A call, the most frequent message. rmcp tries every other method first, each on a complete copy.
#[derive(Deserialize)]
struct Call {
    jsonrpc: JsonRpcVersion2_0,
    id: RequestId,
    #[serde(rename = "method")]
    _method: CallToolRequestMethod,
    params: CallToolRequestParams,
}

pub(super) struct Invalid {
    /// The id of the request that it would have been.
    pub(super) id: Option<RequestId>,
    pub(super) error: ErrorData,
    /// Whether the message needs no answer if there is another channel: a notification, or an answer.
    pub(super) is_unanswered: bool,
}

/// Returns the message in `bytes`, which `scan` has skipped.
///
/// # Errors
/// The bytes are not a message, or exceed the bounds of its method.
pub(super) fn parse(bytes: &[u8], scan: &Scan) -> Result<ClientJsonRpcMessage, Box<Invalid>> {
    let invalid = |error| {
        let id = scan.id().filter(|_| !scan.is_answer);
        Box::new(Invalid { id, error, is_unanswered: scan.is_answer })
    };
    if let Some(error) = excess(scan) {
        return Err(invalid(error));
    }
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
    // Invalid UTF-8 is replaced, and may be the only error.
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
    /// Returns the error of a value that is not a message.
    fn of(value: &Value) -> Self {
        let id = value.get("id").and_then(|id| RequestId::deserialize(id).ok());
        let method = value.get("method").and_then(Value::as_str);
        let error = if value.is_array() {
            let why = format!(
                "expected one message: batches are only for sessions of 2025-03-26, with 1 to {MAX_BATCH} \
                 messages"
            );
            ErrorData::invalid_request(why, None)
        } else if let Some(method) = method {
            ErrorData::invalid_params(format!("invalid parameters of `{method}`"), None)
        } else {
            ErrorData::invalid_request("not a JSON-RPC 2.0 message", None)
        };
        let is_unanswered = id.is_none() && value.get("method").is_some();
        Self { id, error, is_unanswered }
    }
}

pub(super) fn answer(answer: Result<ServerResult, ErrorData>, id: RequestId) -> ServerJsonRpcMessage {
    match answer {
        Ok(result) => JsonRpcMessage::response(result, id),
        Err(error) => JsonRpcMessage::error(error, Some(id)),
    }
}

/// Returns the error as a message. Where the id could not be read it is null, as JSON-RPC 2.0 has it; 2026-07-28
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

/// Returns whether the head of a request is of a revision without sessions.
pub(super) fn is_sessionless(headers: &HeaderMap) -> bool {
    let named = headers.get(VERSION).and_then(|value| value.to_str().ok());
    named.is_some_and(|named| named >= ProtocolVersion::STANDARD_HEADERS.as_str())
}

/// Returns whether a client may send batches. Later revisions have none, and the first revision with a version
/// header is the next one.
pub(super) fn may_have_batches(headers: &HeaderMap) -> bool {
    headers.get(VERSION).is_none_or(|version| version == UNNAMED.as_str())
}

/// Returns whether a message belongs to a session, by its headers and its content; `None`: the request has no body.
/// The handler reports missing parts of a request without a session.
///
/// # Errors
/// The message names no supported revision, or its headers contradict its content.
pub(super) fn is_of_session(
    headers: &HeaderMap,
    message: Option<&ClientJsonRpcMessage>,
) -> Result<bool, ErrorData> {
    let request = match message {
        Some(JsonRpcMessage::Request(request)) => Some(&request.request),
        _ => None,
    };
    let own = request.and_then(|request| request.get_meta().protocol_version());
    let named = named_version(headers, own.is_some())?;
    if let Some(ClientRequest::InitializeRequest(initialize)) = request {
        let asked = &initialize.params.protocol_version;
        return named.filter(|named| named != asked).map_or(Ok(true), |named| {
            let why =
                format!("MCP-Protocol-Version ({named}) is not the protocolVersion of the request ({asked})");
            Err(ErrorData::invalid_request(why, None))
        });
    }
    if let Some(own) = own.as_ref().filter(|own| named.as_ref() != Some(own)) {
        let named = named.map_or_else(|| "none".to_owned(), |named| named.to_string());
        let why = format!("the request has protocolVersion {own}, but its MCP-Protocol-Version is {named}");
        return Err(ErrorData::header_mismatch(why, None));
    }
    let is_alone = |request: &ClientRequest| {
        matches!(request, ClientRequest::DiscoverRequest(_))
            || request.get_meta().missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
    };
    Ok(!request.is_some_and(is_alone) && own.or(named).unwrap_or(UNNAMED).has_initialize())
}

/// Returns the revision in the headers. `may_be_unknown`: the request names a revision too, and is answered with
/// the supported ones.
fn named_version(headers: &HeaderMap, may_be_unknown: bool) -> Result<Option<ProtocolVersion>, ErrorData> {
    let Some(value) = headers.get(VERSION) else { return Ok(None) };
    let named =
        value.to_str().ok().and_then(|text| serde_json::from_value::<ProtocolVersion>(text.into()).ok());
    let known = named.filter(|named| may_be_unknown || ProtocolVersion::KNOWN_VERSIONS.contains(named));
    known.map(Some).ok_or_else(|| {
        let why = format!("unsupported MCP-Protocol-Version: {}", String::from_utf8_lossy(value.as_bytes()));
        ErrorData::invalid_request(why, None)
    })
}

/// Checks that headers of 2026-07-28 repeat the method of a request, and the name of its subject.
///
/// # Errors
/// The headers differ from the request.
pub(super) fn check_repeated(headers: &HeaderMap, request: &ClientRequest) -> Result<(), ErrorData> {
    let opens = matches!(request, ClientRequest::InitializeRequest(_));
    // Clients know the revision, and its headers, once the session is open.
    if !is_sessionless(headers) || (opens && !headers.contains_key(METHOD)) {
        return Ok(());
    }
    repeats(headers, METHOD, Some(request.method()))?;
    name_of(request).map_or(Ok(()), |name| repeats(headers, NAME, Some(name)))
}

/// Returns the value that `Mcp-Name` repeats.
fn name_of(request: &ClientRequest) -> Option<&str> {
    match request {
        ClientRequest::CallToolRequest(request) => Some(&request.params.name),
        ClientRequest::GetPromptRequest(request) => Some(&request.params.name),
        ClientRequest::ReadResourceRequest(request) => Some(&request.params.uri),
        ClientRequest::SubscribeRequest(request) => Some(&request.params.uri),
        ClientRequest::UnsubscribeRequest(request) => Some(&request.params.uri),
        ClientRequest::GetTaskRequest(request) => Some(&request.params.task_id),
        ClientRequest::UpdateTaskRequest(request) => Some(&request.params.task_id),
        ClientRequest::CancelTaskRequest(request) => Some(&request.params.task_id),
        _ => None,
    }
}

/// Returns the `headers` that repeat arguments.
pub(super) fn parameters(headers: &HeaderMap) -> HeaderMap {
    let own = headers.iter().filter(|(name, _)| name.as_str().starts_with(PARAMETER));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Checks that `headers` repeat the arguments that `schema` names for this.
///
/// # Errors
/// A header is missing, differs, or repeats an absent argument.
pub(super) fn check_parameters(
    headers: &HeaderMap,
    schema: &JsonObject,
    arguments: Option<&JsonObject>,
) -> Result<(), ErrorData> {
    let Some(Value::Object(properties)) = schema.get("properties") else { return Ok(()) };
    for (name, schema) in properties {
        let Some(schema) = schema.as_object() else { continue };
        let argument = arguments.and_then(|arguments| arguments.get(name));
        if let Some(header) = schema.get(REPEATED).and_then(Value::as_str).filter(|name| !name.is_empty()) {
            repeats(headers, &format!("{PARAMETER}{header}"), argument.and_then(repeated).as_deref())?;
        }
        check_parameters(headers, schema, argument.and_then(Value::as_object))?;
    }
    Ok(())
}

/// Checks that the header `name` occurs once with the value `expected`, or not at all if that is `None`.
///
/// # Errors
/// The header differs.
fn repeats(headers: &HeaderMap, name: &str, expected: Option<&str>) -> Result<(), ErrorData> {
    let wrong = |why: String| Err(ErrorData::header_mismatch(why, None));
    let mut values = headers.get_all(name).iter();
    let (first, more) = (values.next(), values.next());
    let Some((value, expected)) = first.zip(expected) else {
        return match (first, expected) {
            (None, Some(_)) => wrong(format!("missing required {name} header")),
            (Some(_), None) => wrong(format!("unexpected {name} header: the request has no such value")),
            _ => Ok(()),
        };
    };
    if more.is_some() {
        return wrong(format!("duplicate {name} header"));
    }
    match value.to_str().ok().and_then(decoded) {
        Some(said) if said == expected => Ok(()),
        Some(said) => {
            wrong(format!("{name} header `{said}` does not match the request, which has `{expected}`"))
        }
        None => wrong(format!("{name} header contains invalid characters or is not valid Base64")),
    }
}

/// Returns the value of a header, decoded from Base64 if it could not be sent otherwise.
fn decoded(value: &str) -> Option<String> {
    let Some(inner) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Some(value.to_owned());
    };
    String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok()
}

/// Returns an argument as a header repeats it.
fn repeated(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Returns the MCP result of a tool's. `has_schema`: the tool was listed with an output schema.
pub(super) fn call_result(result: ToolResult, has_schema: bool) -> CallToolResult {
    let ToolResult { content, is_error, attachments, structured, mcp: _ } = result;
    let is_missing = has_schema && structured.is_none() && !is_error;
    let has_text = !content.is_empty();
    let mut blocks = blocks(content, attachments);
    if is_missing {
        // Clients refuse such an answer unless it is an error; the model should see the text nevertheless.
        blocks.push(ContentBlock::text(
            "(the tool returned no data, although its output schema requires data)",
        ));
    }
    if blocks.is_empty() || (!has_text && structured.is_some()) {
        let text = structured.as_ref().map(ToString::to_string).unwrap_or_default();
        blocks.push(ContentBlock::text(text));
    }
    let mut answer = CallToolResult::success(blocks);
    answer.is_error = Some(is_error || is_missing);
    // Before 2026-07-28 data is an object.
    answer.structured_content = structured.filter(Value::is_object);
    answer
}

/// Returns the text with the attachments at the lines that mention them, or after it.
fn blocks(content: String, attachments: Vec<Attachment>) -> Vec<ContentBlock> {
    let (mut blocks, mut unmentioned) = (Vec::new(), Vec::new());
    if attachments.is_empty() {
        // Moved, because the text may have many megabytes.
        blocks.extend((!content.is_empty()).then(|| ContentBlock::text(content)));
        return blocks;
    }
    let mut rest = content.as_str();
    for (index, attachment) in attachments.into_iter().enumerate() {
        if let Some((before, after)) = split_at_line(rest, &attachment.mention()) {
            push_text(&mut blocks, before);
            blocks.push(block(attachment, index));
            rest = after;
        } else {
            unmentioned.push(block(attachment, index));
        }
    }
    push_text(&mut blocks, rest);
    blocks.append(&mut unmentioned);
    blocks
}

fn push_text(blocks: &mut Vec<ContentBlock>, text: &str) {
    if !text.is_empty() {
        blocks.push(ContentBlock::text(text));
    }
}

/// Returns the text before and after the first line that equals `line`.
fn split_at_line<'t>(text: &'t str, line: &str) -> Option<(&'t str, &'t str)> {
    let mut at = 0;
    for piece in text.split_inclusive('\n') {
        let end = at + piece.len();
        if piece.strip_suffix('\n').unwrap_or(piece) == line {
            let before = text.get(..at)?;
            return Some((before.strip_suffix('\n').unwrap_or(before), text.get(end..)?));
        }
        at = end;
    }
    None
}

pub(super) fn block(attachment: Attachment, index: usize) -> ContentBlock {
    let encoded = BASE64_STANDARD.encode(&attachment.data);
    match attachment.media_type.split_once('/').map(|(kind, _)| kind) {
        Some("image") => ContentBlock::image(encoded, attachment.media_type),
        Some("audio") => ContentBlock::audio(encoded, attachment.media_type),
        _ => ContentBlock::resource(resource(&attachment, encoded, index)),
    }
}

/// Returns a file as an embedded resource. The protocol requires a URI; this one cannot be fetched.
fn resource(attachment: &Attachment, encoded: String, index: usize) -> ResourceContents {
    let uri = format!("attachment:{}", index + 1);
    let contents = match attachment.text() {
        Some(text) => ResourceContents::text(text, uri),
        None => ResourceContents::blob(encoded, uri),
    };
    contents.with_mime_type(&attachment.media_type)
}

#[cfg(test)]
mod tests;
