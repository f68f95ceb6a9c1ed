//! The MCP endpoint: POST, GET and DELETE. Parses a message, and a handler answers its request.
//!
//! The form of an answer depends on its request alone. In a session a call (of a tool, a prompt or a resource) is
//! answered by a stream of events, every other request by one JSON object. Without a session (2026-07-28) the
//! answer is an object, or a stream if the request asks for notifications before the answer. The thread that
//! finishes the request does not matter.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{ALLOW, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, GetMeta, InitializeRequestParams, JsonRpcMessage,
    JsonRpcRequest, ProtocolVersion, RequestId,
};
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::response::{self, EventStream, HttpResponse, Ids, JSON, LastEvent, PING, Refusal, StreamGuard};
use super::session::{Home, SessionGuard, Sessions};
use crate::server::conversation::{Answer, Requester};
use crate::server::handler::ServerShared;
use crate::server::message::{self, MAX_BATCH};
use haft_core::scan::Scan;
use haft_core::tool::inline::{self, ThreadLoad};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Maximum number of bytes of a request that is polled first on the reading thread: the check of larger arguments takes
/// longer.
const MAX_SHORT: usize = 64 << 10;

type Request = JsonRpcRequest<ClientRequest>;

/// The result of a call, or the task that continues it.
type Begun<T> = Result<T, JoinHandle<T>>;

pub(super) struct Endpoint {
    sessions: Arc<Sessions>,
    /// haft's own, on which everything runs that takes time.
    pub(super) runtime: Handle,
    /// Ends every stream.
    pub(super) closing: CancellationToken,
    _tidying: DropGuard,
}

impl Endpoint {
    /// Creates an endpoint for `most` sessions, which name `home` if there are other replicas. Slow work runs on the
    /// caller's runtime.
    pub(super) fn new(most: usize, home: Option<Home>) -> Self {
        let (sessions, runtime) = (Sessions::new(most, home), Handle::current());
        let tidying = CancellationToken::new();
        runtime.spawn(tidying.clone().run_until_cancelled_owned(sessions.clone().tidy()));
        Self { sessions, runtime, closing: CancellationToken::new(), _tidying: tidying.drop_guard() }
    }

    pub(super) async fn answer(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        caller: ServerShared,
    ) -> Result<HttpResponse, Refusal> {
        match *method {
            Method::POST => self.post(headers, body, caller).await,
            Method::GET | Method::DELETE => {
                let is_of_session = message::is_of_session(headers, None)
                    .map_err(|error| Refusal::error(None, error, message::is_sessionless(headers)))?;
                if !is_of_session {
                    return Ok(not_allowed("POST"));
                }
                let session = self.session(headers, &caller)?;
                if *method == Method::GET {
                    return Ok(self.stream(headers, session));
                }
                self.sessions.end(&session);
                // Some clients take "accepted" for a failure.
                Ok(response::empty(StatusCode::NO_CONTENT))
            }
            _ => Ok(not_allowed("GET, POST, DELETE")),
        }
    }

    async fn post(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        caller: ServerShared,
    ) -> Result<HttpResponse, Refusal> {
        let scan = Scan::from_message(body);
        let refuse = |id, error| Refusal::error(id, error, message::is_sessionless(headers));
        let is_batch = scan.is_batch() && message::excess(&scan).is_none();
        if is_batch && message::may_have_batches(headers) && headers.contains_key(SESSION) {
            let session = self.session(headers, &caller)?;
            if let Some(messages) = batched(body) {
                return self.answer_batch(headers, &session, body, &messages).await;
            }
        }
        let is_short = body.len() <= MAX_SHORT;
        let parsed = self.parsed(body.clone(), scan).await?;
        let message = parsed.map_err(|invalid| refuse(invalid.id, invalid.error))?;
        let id = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let refuse = |error| refuse(id.clone(), error);
        if !message::is_of_session(headers, Some(&message)).map_err(refuse)? {
            return self.answer_alone(headers, message, caller, is_short).await;
        }
        let JsonRpcMessage::Request(request) = message else {
            self.session(headers, &caller)?.take(message);
            return Ok(response::empty(StatusCode::ACCEPTED));
        };
        match &request.request {
            ClientRequest::InitializeRequest(_) if headers.contains_key(SESSION) => {
                self.session(headers, &caller)?;
                Err(refuse(ErrorData::invalid_request("the session is already open", None)))
            }
            ClientRequest::InitializeRequest(initialize) => {
                message::check_repeated(headers, &request.request).map_err(refuse)?;
                self.open(request.id, &initialize.params, &caller).await
            }
            _ => self.answer_in(self.session(headers, &caller)?, request, is_short).await,
        }
    }

    /// Answers a batch in a session, message by message. Notifications of its calls are sent in the session's own
    /// stream.
    async fn answer_batch(
        &self,
        headers: &HeaderMap,
        session: &SessionGuard,
        body: &Bytes,
        messages: &[&RawValue],
    ) -> Result<HttpResponse, Refusal> {
        let mut answers: Vec<Bytes> = Vec::new();
        for text in messages {
            let text = body.slice_ref(text.get().as_bytes());
            let scan = Scan::from_message(&text);
            let refusal = |id, error| message::refusal(id, error, false).to_string().into();
            let message = self.parsed(text, scan).await?;
            // A request of another revision would wait for an answer that no batch has.
            if message.as_ref().is_ok_and(|message| !is_of_batch(headers, message)) {
                let id = message.ok().and_then(JsonRpcMessage::into_request).map(|(_, id)| id);
                answers.push(refusal(id, ErrorData::invalid_request("not a request of a batch", None)));
                continue;
            }
            match message {
                Ok(JsonRpcMessage::Request(request)) => {
                    let id = request.id.clone();
                    match self.begin_in(session, request, false, false) {
                        Ok((begun, _)) => answers.push(ended(begun).await?),
                        Err(error) => answers.push(refusal(Some(id), error)),
                    }
                }
                Ok(message) => session.take(message),
                Err(invalid) => answers.push(refusal(invalid.id, invalid.error)),
            }
        }
        if answers.is_empty() {
            return Ok(response::empty(StatusCode::ACCEPTED));
        }
        let text = [&b"["[..], &answers.join(&b","[..]), b"]"].concat();
        Ok(response::whole(StatusCode::OK, JSON, text))
    }

    /// Returns the message in `body`. The runtime parses a long body, because that takes up to 0.2 s and this thread
    /// serves other connections.
    async fn parsed(
        &self,
        body: Bytes,
        scan: Scan,
    ) -> Result<Result<ClientJsonRpcMessage, Box<message::Invalid>>, Refusal> {
        if body.len() <= MAX_SHORT {
            return Ok(message::parse(&body, &scan));
        }
        ended(Err(self.runtime.spawn(async move { message::parse(&body, &scan) }))).await
    }

    fn session(&self, headers: &HeaderMap, caller: &ServerShared) -> Result<SessionGuard, Refusal> {
        let missing = || {
            let why = "expected `Mcp-Session-Id`: `initialize` opens a session";
            Refusal::new(StatusCode::BAD_REQUEST, why)
        };
        let id = headers.get(SESSION).and_then(|id| id.to_str().ok()).ok_or_else(missing)?;
        self.sessions.enter(id, caller.caller())
    }

    async fn open(
        &self,
        id: RequestId,
        request: &InitializeRequestParams,
        caller: &ServerShared,
    ) -> Result<HttpResponse, Refusal> {
        let handler = caller.handler();
        handler.settle().await;
        let (result, agreed) = handler.open(request);
        let session = self.sessions.open(caller.caller().clone(), handler, agreed)?;
        let message = message::answer(Ok(result.into()), id);
        let mut answer = response::whole(StatusCode::OK, JSON, response::text(&message));
        // Ids are letters, digits and a few signs.
        answer.headers_mut().extend(HeaderValue::from_str(&session).ok().map(|id| (SESSION, id)));
        Ok(answer)
    }

    async fn answer_in(
        &self,
        session: SessionGuard,
        request: Request,
        is_short: bool,
    ) -> Result<HttpResponse, Refusal> {
        let (id, has_stream) = (request.id.clone(), is_call(&request.request));
        let begun = self.begin_in(&session, request, has_stream, is_short);
        let (begun, stream) = begun.map_err(|error| Refusal::error(Some(id), error, false))?;
        let Some(stream) = stream else {
            // A client that hangs up has not taken its request back.
            return Ok(response::whole(StatusCode::OK, JSON, ended(begun).await?));
        };
        let primes = session.primes();
        let whole = begun.is_ok().then(|| stream.whole(primes)).flatten();
        Ok(whole.unwrap_or_else(|| stream.response(None, primes, self.end(session))))
    }

    /// Begins a request in a session, with its answer also in a stream if it `has_stream`.
    fn begin_in(
        &self,
        session: &SessionGuard,
        request: Request,
        has_stream: bool,
        is_short: bool,
    ) -> Result<(Begun<Bytes>, Option<Arc<EventStream>>), ErrorData> {
        let open = session.begin(&request, has_stream)?;
        let JsonRpcRequest { id, mut request, .. } = request;
        let (agreed, cancel) = (Some(session.agreed.clone()), open.running.cancel.clone());
        let requester = Requester::new(id.clone(), &mut request, cancel, agreed, open.link());
        let (own, stream) = ((**session).clone(), open.stream.as_ref().map(|guard| guard.stream.clone()));
        let call = async move {
            let answer = own.handler.answer(request, requester).await;
            let message = response::text(&message::answer(answer, id));
            let _ = open.running.claim_answer();
            if let Some(guard) = &open.stream {
                guard.stream.answer(message.clone(), StatusCode::OK);
            }
            message
        };
        Ok((self.begin(call, is_short), stream))
    }

    /// Answers a message that is of no session.
    async fn answer_alone(
        &self,
        headers: &HeaderMap,
        message: ClientJsonRpcMessage,
        caller: ServerShared,
        is_short: bool,
    ) -> Result<HttpResponse, Refusal> {
        let request = match message {
            JsonRpcMessage::Request(request) => request,
            JsonRpcMessage::Notification(_) => return Ok(response::empty(StatusCode::ACCEPTED)),
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {
                let error = ErrorData::invalid_request("no question is open", None);
                return Err(Refusal::error(None, error, true));
            }
        };
        message::check_repeated(headers, &request.request)
            .map_err(|error| Refusal::error(Some(request.id.clone()), error, true))?;
        let (has_stream, stream) = (wants_events(&request.request), EventStream::new(Ids::None));
        let JsonRpcRequest { id, mut request, .. } = request;
        let cancel = CancellationToken::new();
        // A client that hangs up stops its request.
        let stops = cancel.clone().drop_guard();
        let requester = Requester::new(id.clone(), &mut request, cancel, None, stream.clone());
        let requester = Requester { parameters: Some(message::parameters(headers)), ..requester };
        let is_whole = requester.meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty();
        let (handler, guard) = (caller.handler(), StreamGuard { stream: stream.clone(), id: id.clone() });
        let call = async move {
            let answer = handler.answer(request, requester).await;
            let status = status_of(&answer, is_whole);
            let message = response::text(&message::answer(answer, id));
            guard.stream.answer(message.clone(), status);
            (status, message)
        };
        let begun = self.begin(call, is_short);
        if !has_stream {
            let (status, message) = ended(begun).await?;
            return Ok(response::whole(status, JSON, message));
        }
        // A head after a proxy's time limit would be useless.
        let failure = tokio::time::timeout(PING, stream.failure()).await.ok().flatten();
        let answer = failure.or_else(|| stream.whole(false));
        Ok(answer.unwrap_or_else(|| stream.response(None, false, self.end(stops))))
    }

    /// Returns the stream of a session, or the events after the client's last one.
    fn stream(&self, headers: &HeaderMap, session: SessionGuard) -> HttpResponse {
        let Some(last) = headers.get(LAST_EVENT) else {
            return session.events.clone().response(None, session.primes(), self.news(session));
        };
        let last = last.to_str().ok().and_then(LastEvent::parse);
        let Some((stream, last)) = last.and_then(|last| Some((session.stream(&last)?, last))) else {
            // Clients ask again and again after an error.
            let nothing = EventStream::new(Ids::None);
            nothing.end();
            return nothing.response(None, false, std::future::pending());
        };
        match last.request {
            Some(_) => stream.response(Some(&last), false, self.end(session)),
            None => stream.response(Some(&last), false, self.news(session)),
        }
    }

    /// Ends when every stream does, and holds something until then.
    fn end<H: Send + 'static>(&self, held: H) -> impl Future<Output = ()> + Send + use<H> {
        let closing = self.closing.clone();
        async move {
            closing.cancelled().await;
            drop(held);
        }
    }

    /// Notifies the client of a session of changed tools.
    fn news(&self, session: SessionGuard) -> impl Future<Output = ()> + Send + use<> {
        let closing = self.closing.clone();
        let telling = async move {
            let link = session.link();
            session.news.tell(&session.handler, &link).await;
            std::future::pending::<()>().await;
        };
        async move {
            tokio::select! { () = telling => {} () = closing.cancelled() => {} }
        }
    }

    /// Polls `call` once on this thread if it `is_short` and this thread runs calls inline. The runtime continues
    /// it.
    ///
    /// # Errors
    /// The call, if it continues.
    fn begin<F>(&self, call: F, is_short: bool) -> Begun<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        if !is_short || !inline::is_enabled() {
            return Err(self.runtime.spawn(call));
        }
        let polled = inline::poll_once(Box::pin(call), &self.runtime);
        // Remains are dropped when this thread is idle (`threads`).
        inline::run_cleanups(ThreadLoad::Busy);
        polled.map_err(|call| self.runtime.spawn(call))
    }
}

/// Returns the messages of a batch; `None` if it is not a valid batch.
fn batched(body: &[u8]) -> Option<Vec<&RawValue>> {
    let messages = serde_json::from_slice::<Vec<&RawValue>>(body).ok()?;
    (1..=MAX_BATCH).contains(&messages.len()).then_some(messages)
}

/// Returns whether a message of a batch belongs to the session: it neither has a revision without sessions, nor
/// opens a session.
fn is_of_batch(headers: &HeaderMap, message: &ClientJsonRpcMessage) -> bool {
    let opens = matches!(message, JsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::InitializeRequest(_)));
    !opens && message::is_of_session(headers, Some(message)).unwrap_or(false)
}

async fn ended<T>(begun: Begun<T>) -> Result<T, Refusal> {
    match begun {
        Ok(output) => Ok(output),
        Err(call) => call.await.map_err(|_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, message::DEFECT)),
    }
}

fn is_call(request: &ClientRequest) -> bool {
    matches!(
        request,
        ClientRequest::CallToolRequest(_)
            | ClientRequest::GetPromptRequest(_)
            | ClientRequest::ReadResourceRequest(_)
    )
}

/// Returns whether a request without a session requests notifications before its answer.
fn wants_events(request: &ClientRequest) -> bool {
    let meta = request.get_meta();
    let asks = || meta.get_progress_token().is_some() || meta.log_level().is_some();
    matches!(request, ClientRequest::SubscriptionsListenRequest(_)) || (is_call(request) && asks())
}

/// Returns the status of an answer to a request without a session; `is_whole`: the request is self-contained.
fn status_of(answer: &Answer, is_whole: bool) -> StatusCode {
    let Err(error) = answer else { return StatusCode::OK };
    match error.code {
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        | ErrorCode::HEADER_MISMATCH => StatusCode::BAD_REQUEST,
        ErrorCode::INVALID_PARAMS if !is_whole => StatusCode::BAD_REQUEST,
        ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

/// Returns the answer to a method other than `methods`.
fn not_allowed(methods: &'static str) -> HttpResponse {
    let mut answer = response::empty(StatusCode::METHOD_NOT_ALLOWED);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}
