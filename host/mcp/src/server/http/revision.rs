//! Which revision a request is of, and what its head has to say in that revision. Up to 2025-11-25 a request is one of a
//! session; from 2026-07-28 on it brings everything along, and its head repeats a part of it.

use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use hyper::{HeaderMap, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetMeta, JsonRpcMessage, JsonRpcRequest, ProtocolVersion,
};

use super::response::{EVENTS, JSON, Refusal};
use crate::server::parameters::repeats;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// The revision of a request that names none: the last one whose requests name none.
const UNNAMED: ProtocolVersion = ProtocolVersion::V_2025_03_26;

type Request = JsonRpcRequest<ClientRequest>;

/// Checks that a client takes both forms of an answer, and says that it sends JSON.
pub(super) fn check_types(headers: &HeaderMap) -> Result<(), Refusal> {
    if !(accepts(headers, JSON) && accepts(headers, EVENTS)) {
        let why = "expected `Accept: application/json, text/event-stream`";
        return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, why));
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(JSON) {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "expected `Content-Type: application/json`",
        ));
    }
    Ok(())
}

/// Checks that a client that asks for a stream takes one.
pub(super) fn check_takes_events(headers: &HeaderMap) -> Result<(), Refusal> {
    if accepts(headers, EVENTS) {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, "expected `Accept: text/event-stream`"))
}

/// Whether `Accept` names `kind`, and not with the weight 0.
fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let is_meant = parts.next().is_some_and(|own| own.eq_ignore_ascii_case(kind));
        is_meant && !parts.any(is_weight_of_nothing)
    })
}

fn is_weight_of_nothing(parameter: &str) -> bool {
    let weight = parameter.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    weight.is_some_and(|(_, weight)| weight.trim().parse::<f32>().is_ok_and(|weight| weight == 0.0))
}

/// Whether a client may send batches: later revisions have none, and the first with a header for its version is the next one.
pub(super) fn may_have_batches(headers: &HeaderMap) -> bool {
    headers.get(VERSION).is_none_or(|version| version == UNNAMED.as_str())
}

/// Whether a message is one of a session, by its head and by itself; `None`: the request has no body.
///
/// # Errors
/// It names no revision that haft speaks, or its head and itself do not say the same.
pub(super) fn is_of_session(
    headers: &HeaderMap,
    message: Option<&ClientJsonRpcMessage>,
) -> Result<bool, Refusal> {
    let request = match message {
        Some(JsonRpcMessage::Request(request)) => Some(request),
        _ => None,
    };
    let own = request.and_then(|request| request.request.get_meta().protocol_version());
    let named = named_version(headers, own.is_some())?;
    if let Some(request) = request {
        if let ClientRequest::InitializeRequest(initialize) = &request.request {
            check_opening(request, named.as_ref(), &initialize.params.protocol_version)?;
            return Ok(true);
        }
        check_version(request, named.as_ref(), own.as_ref())?;
        if request.request.get_meta().missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty() {
            return Ok(false);
        }
    }
    Ok(own.or(named).unwrap_or(UNNAMED).has_initialize())
}

/// The revision that a head names. `may_be_unknown`: the request names one too, and is told itself which there are.
fn named_version(headers: &HeaderMap, may_be_unknown: bool) -> Result<Option<ProtocolVersion>, Refusal> {
    let Some(value) = headers.get(VERSION) else { return Ok(None) };
    let named =
        value.to_str().ok().and_then(|text| serde_json::from_value::<ProtocolVersion>(text.into()).ok());
    let known = named.filter(|named| may_be_unknown || ProtocolVersion::KNOWN_VERSIONS.contains(named));
    known.map(Some).ok_or_else(|| {
        let why = format!("unsupported MCP-Protocol-Version: {}", String::from_utf8_lossy(value.as_bytes()));
        Refusal::new(StatusCode::BAD_REQUEST, why)
    })
}

/// Checks that the head of a request which opens a session names the revision that it asks for, if any.
fn check_opening(
    request: &Request,
    named: Option<&ProtocolVersion>,
    asked: &ProtocolVersion,
) -> Result<(), Refusal> {
    match named {
        Some(named) if named != asked => {
            let why =
                format!("MCP-Protocol-Version ({named}) is not the protocolVersion of the request ({asked})");
            Err(wrong(request, ErrorData::invalid_request(why, None)))
        }
        _ => Ok(()),
    }
}

/// Checks that a request and its head name the same revision, where the request names one or has to.
fn check_version(
    request: &Request,
    named: Option<&ProtocolVersion>,
    own: Option<&ProtocolVersion>,
) -> Result<(), Refusal> {
    let later = ProtocolVersion::V_2026_07_28;
    match (own, named) {
        (Some(own), Some(named)) if own == named => Ok(()),
        (Some(own), named) => {
            let named = named.map_or_else(|| "none".to_owned(), ToString::to_string);
            let why = format!("the request is of protocolVersion {own}, its MCP-Protocol-Version is {named}");
            Err(wrong(request, ErrorData::header_mismatch(why, None)))
        }
        (None, named) => {
            let has_to = matches!(request.request, ClientRequest::DiscoverRequest(_))
                || named.is_some_and(|named| *named >= later);
            let missing = request.request.get_meta().missing_required_keys(&later).join(", ");
            let why = format!("request _meta is missing or has malformed required fields: {missing}");
            if has_to { Err(wrong(request, ErrorData::invalid_params(why, None))) } else { Ok(()) }
        }
    }
}

/// Checks that a head of 2026-07-28 repeats the method of a request, and the name of what it is for.
pub(super) fn check_repeated(headers: &HeaderMap, request: &Request) -> Result<(), Refusal> {
    let is_earlier = |value: &str| value < ProtocolVersion::STANDARD_HEADERS.as_str();
    if headers.get(VERSION).and_then(|value| value.to_str().ok()).is_none_or(is_earlier) {
        return Ok(());
    }
    let opens = matches!(request.request, ClientRequest::InitializeRequest(_));
    if opens && !headers.contains_key(METHOD) {
        // Clients know the revision, and what its heads say, once the session is open.
        return Ok(());
    }
    let checked = repeats(headers, METHOD, Some(request.request.method())).and_then(|()| {
        match name_of(&request.request) {
            Some(name) => repeats(headers, NAME, Some(name)),
            None => Ok(()),
        }
    });
    checked.map_err(|error| wrong(request, error))
}

/// What `Mcp-Name` repeats.
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

fn wrong(request: &Request, error: ErrorData) -> Refusal {
    Refusal::error(StatusCode::BAD_REQUEST, Some(request.id.clone()), error)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use serde_json::{Value, json};

    use super::*;

    const KEY: &str = "io.modelcontextprotocol/protocolVersion";

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        pairs.collect()
    }

    fn call(meta: &Value) -> ClientJsonRpcMessage {
        let params = json!({"name": "x", "_meta": meta});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        serde_json::from_value(call).unwrap()
    }

    #[test]
    fn a_client_takes_both_forms_and_sends_json() {
        const BOTH: &str = "application/json, text/event-stream";
        for (fits, accept, content_type) in [
            (true, BOTH, "application/json"),
            (true, "text/event-stream;q=0.5,Application/JSON", "application/json; charset=utf-8"),
            (false, "application/json", "application/json"),
            (false, "application/json, text/event-stream; q=0.0", "application/json"),
            (false, "*/*", "application/json"),
            (false, BOTH, "text/plain"),
        ] {
            let headers = headers(&[(ACCEPT, accept), (CONTENT_TYPE, content_type)]);
            assert_eq!(check_types(&headers).is_ok(), fits, "{accept}, {content_type}");
        }
    }

    #[test]
    fn a_request_is_of_the_revision_that_it_names() {
        let later = json!({KEY: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
        for (expected, named, meta) in [
            (Some(true), None, json!({})),
            (Some(true), Some("2025-11-25"), json!({})),
            (Some(true), Some("2024-11-05"), json!({})),
            (Some(false), Some("2026-07-28"), later.clone()),
            (
                Some(false),
                Some("1999-01-01"),
                json!({KEY: "1999-01-01", "io.modelcontextprotocol/clientCapabilities": {}}),
            ),
            (None, Some("1999-01-01"), json!({})),
            (None, Some("2026-07-28"), json!({})),
            (None, Some("2025-11-25"), later.clone()),
            (None, None, later),
        ] {
            let own: Vec<_> = named.into_iter().map(|named| (VERSION, named)).collect();
            let found = is_of_session(&headers(&own), Some(&call(&meta)));
            assert_eq!(found.ok(), expected, "{named:?} {meta}");
        }
    }
}
