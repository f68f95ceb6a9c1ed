//! Answers requests on the thread that read them, where that takes no time: `ping`, and calls that may run there
//! ([`Handler::may_run_inline`]). They are parsed once, answered as one JSON object, and rmcp does not see them.
//!
//! What the answer is does not change by this. A call that does not end with the first poll, or has something to tell
//! before it ends, goes to rmcp as it was begun ([`BegunCall`]), and so does, not begun, every request whose head is
//! not plainly in order: rmcp says what is wrong with it.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Response};
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetMeta, JsonObject, JsonRpcMessage, JsonRpcRequest,
    ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::Peer;
use serde_json::Value;
use tokio::runtime::Handle;

use super::message;
use super::refusal::HttpResponse;
use super::stand_in::StandIn;
use crate::server::begun::{self, Answer, BegunCall, FirstPoll};
use crate::server::bounds::CALL;
use crate::server::handler::{Handler, ServerShared};
use crate::server::parse;
use haft_core::scan::Scan;
use haft_core::tool::inline::{self, ThreadLoad};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// What the names of headers begin with that repeat an argument.
const PARAMETER: &str = "mcp-param-";

/// The key of a schema that says that a header repeats the argument.
const REPEATED: &str = "x-mcp-header";

/// Bytes of a request that is answered where it was read: checking arguments takes longer for larger ones.
const MAX_BYTES: usize = 64 << 10;

/// Answers short requests.
pub(super) struct ShortPath {
    /// Where calls go on that wait.
    runtime: Handle,
    /// For clients with a session.
    session: StandIn,
    /// For those without (2026-07-28).
    sessionless: StandIn,
}

/// What came of a request.
pub(super) enum Tried {
    Answered(HttpResponse),
    /// It was begun, and rmcp is to have it with this in its head.
    Begun(BegunCall),
    /// Nothing: rmcp is to have it.
    Nothing,
}

/// The client of a request.
pub(super) enum Caller {
    Session(Arc<Handler>),
    /// One whose head names no session.
    Sessionless(ServerShared),
    /// One whose session is not there.
    Unknown,
}

impl ShortPath {
    /// For clients of `shared`; calls that wait go on on the runtime of the caller.
    pub(super) fn new(shared: &ServerShared) -> Self {
        let stand_in = |version| StandIn::new(shared, version);
        Self {
            runtime: Handle::current(),
            session: stand_in(ProtocolVersion::V_2025_11_25),
            sessionless: stand_in(ProtocolVersion::V_2026_07_28),
        }
    }

    /// Answers a request of `caller`, if that takes no time.
    pub(super) fn answer(&self, head: &Parts, body: &[u8], scan: &Scan, caller: Caller) -> Tried {
        if body.len() > MAX_BYTES || head.method != Method::POST || !is_plain(&head.headers) {
            return Tried::Nothing;
        }
        let Some(request) = request(body, scan) else { return Tried::Nothing };
        let Some((handler, stand_in)) = self.client(&head.headers, &request, caller) else {
            return Tried::Nothing;
        };
        if !may_answer(&handler, &request.request) {
            return Tried::Nothing;
        }
        let id = request.id.clone();
        let context = handler.context_with(&id, stand_in);
        let polled = begun::poll_once(handler, request, context, &self.runtime);
        // What is left is cleared when this thread has nothing else to do (`threads`).
        inline::run_cleanups(ThreadLoad::Busy);
        match polled {
            FirstPoll::Answered(answer) => Tried::Answered(response(id, *answer)),
            FirstPoll::Begun(call) => Tried::Begun(call),
        }
    }

    /// Who handles a request, and the stand-in for its client.
    fn client(
        &self,
        headers: &HeaderMap,
        request: &JsonRpcRequest<ClientRequest>,
        caller: Caller,
    ) -> Option<(Arc<Handler>, &Peer<RoleServer>)> {
        match caller {
            Caller::Session(handler) => {
                is_of_session(headers, &request.request).then(|| (handler, self.session.peer()))
            }
            Caller::Sessionless(shared) => {
                let handler = Arc::new(shared.handler());
                let fits = is_self_contained(headers, &request.request, &handler);
                fits.then(|| (handler, self.sessionless.peer()))
            }
            Caller::Unknown => None,
        }
    }
}

/// Whether a request takes no time to answer on this thread.
fn may_answer(handler: &Handler, request: &ClientRequest) -> bool {
    match request {
        ClientRequest::PingRequest(_) => true,
        ClientRequest::CallToolRequest(call) => inline::is_enabled() && handler.may_run_inline(&call.params),
        _ => false,
    }
}

/// The request that a body is, where it is a call or a ping.
fn request(body: &[u8], scan: &Scan) -> Option<JsonRpcRequest<ClientRequest>> {
    match scan.method()? {
        CALL => parse::call(body),
        "ping" => match serde_json::from_slice(body).ok()? {
            ClientJsonRpcMessage::Request(request) => Some(request),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a head says in the usual words that it brings JSON, and takes both kinds of answers.
fn is_plain(headers: &HeaderMap) -> bool {
    let Some(accept) = only(headers, &ACCEPT) else { return false };
    let takes = |kind: &str| accept.split(',').any(|own| own.trim().eq_ignore_ascii_case(kind));
    message::is_json(headers) && takes("application/json") && takes("text/event-stream")
}

/// Whether a request is one of a session, by its head and by itself.
fn is_of_session(headers: &HeaderMap, request: &ClientRequest) -> bool {
    let is_known = |version: &str| {
        let known = ProtocolVersion::KNOWN_VERSIONS.iter().find(|known| known.as_str() == version);
        known.is_some_and(ProtocolVersion::has_initialize)
    };
    let version = if headers.contains_key(VERSION) { only(headers, &VERSION) } else { Some("2025-03-26") };
    version.is_some_and(is_known) && request.get_meta().protocol_version().is_none()
}

/// Whether a call brings all that a client without a session says with it (2026-07-28), the same in its head and in
/// itself.
fn is_self_contained(headers: &HeaderMap, request: &ClientRequest, handler: &Handler) -> bool {
    let ClientRequest::CallToolRequest(call) = request else { return false };
    let (meta, later) = (request.get_meta(), ProtocolVersion::V_2026_07_28);
    let name = &*call.params.name;
    let repeats_parameter = || headers.keys().any(|own| own.as_str().starts_with(PARAMETER));
    only(headers, &VERSION) == Some(later.as_str())
        && meta.protocol_version().is_some_and(|version| version == later)
        && meta.missing_required_keys(&later).is_empty()
        && only(headers, &METHOD) == Some(CALL)
        // Names of tools are never written in Base64.
        && only(headers, &NAME) == Some(name)
        && !name.starts_with("=?")
        && !repeats_parameter()
        && handler.input_schema(name).is_some_and(|schema| !is_repeated(&schema))
}

/// Whether a header repeats a part of what `schema` describes.
fn is_repeated(schema: &JsonObject) -> bool {
    let Some(Value::Object(properties)) = schema.get("properties") else { return false };
    let mut schemas = properties.values().filter_map(Value::as_object);
    schemas.any(|own| own.contains_key(REPEATED) || is_repeated(own))
}

/// The value of a header that stands in a head once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn response(id: RequestId, answer: Answer) -> HttpResponse {
    let message: ServerJsonRpcMessage = match answer {
        Ok(result) => JsonRpcMessage::response(result, id),
        Err(error) => JsonRpcMessage::error(error, Some(id)),
    };
    // An answer is strings and JSON values: it can be written.
    let text = serde_json::to_vec(&message).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    /// What rmcp would refuse, or take for something else, is left to it.
    #[test]
    fn only_plain_heads_are_answered_here() {
        const BOTH: &str = "application/json, text/event-stream";
        for (fits, accept, content_type) in [
            (true, BOTH, "application/json"),
            (true, "text/event-stream,Application/JSON", "application/json; charset=utf-8"),
            (false, "application/json", "application/json"),
            (false, "application/json, text/event-stream;q=0", "application/json"),
            (false, "*/*", "application/json"),
            (false, BOTH, "text/plain"),
        ] {
            let headers = headers(&[(ACCEPT, accept), (CONTENT_TYPE, content_type)]);
            assert_eq!(is_plain(&headers), fits, "{accept}, {content_type}");
        }
    }

    #[test]
    fn a_request_of_a_session_says_nothing_of_later_revisions() {
        let call = |meta: Value| {
            let params = json!({"name": "x", "_meta": meta});
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            parse::call(call.to_string().as_bytes()).unwrap().request
        };
        let (none, later) = (json!({}), json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}));
        assert!(is_of_session(&headers(&[]), &call(none.clone())));
        for (fits, version) in
            [(true, "2025-11-25"), (true, "2024-11-05"), (false, "2026-07-28"), (false, "1999-01-01")]
        {
            assert_eq!(
                is_of_session(&headers(&[(VERSION, version)]), &call(none.clone())),
                fits,
                "{version}"
            );
        }
        let twice = headers(&[(VERSION, "2025-11-25"), (VERSION, "2025-11-25")]);
        assert!(!is_of_session(&twice, &call(none)));
        assert!(!is_of_session(&headers(&[(VERSION, "2025-11-25")]), &call(later)));
    }

    #[test]
    fn a_parameter_that_a_header_repeats_is_seen_at_any_depth() {
        let schema = |property: Value| {
            let schema = json!({"type": "object", "properties": {"a": property}});
            schema.as_object().unwrap().clone()
        };
        assert!(!is_repeated(&schema(json!({"type": "string"}))));
        assert!(is_repeated(&schema(json!({"type": "string", "x-mcp-header": "A"}))));
        assert!(is_repeated(&schema(json!({"properties": {"b": {"x-mcp-header": "B"}}}))));
    }
}
