//! A server that is running, or connected: sends requests and awaits their answers, each with a time limit. It never
//! sends a request twice.

mod subscription;
mod task;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use rmcp::model::{
    ClientRequest, CustomResult, GetMeta, InputRequest, InputRequiredResult, JsonObject, RequestMetaObject,
    ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RunningService};
use rmcp::{ClientHandler, Peer, RoleClient, ServiceError};
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use self::subscription::listen_for_changes;
use super::calls::{Listener, Ongoing};
use super::child::{Child, DYING, ended};
use super::handler::ServerRequestHandler;
use super::http::from_transport_error;
use super::listing::ToolListBuilder;
use super::message::{self, request_of};
use super::pending::PendingResponse;
use super::{ServerError, ToolList};
use haft_core::secret::Redactor;
use haft_core::trace::TraceParent;
use haft_sandbox::confine::Refusal;

/// Maximum number of a server's requests for input before it answers a call.
const MAX_ROUNDS: usize = 10;
/// Time limit for closing a connection; an HTTP session is ended by a request.
const CLOSE: Duration = Duration::from_secs(2);
/// Time limit for the end of a server after its input was closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The connection. Its drop kills a child process.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    running: tokio::sync::Mutex<Option<RunningService<RoleClient, ServerRequestHandler>>>,
    pub(super) handler: ServerRequestHandler,
    /// `None` over HTTP.
    pub(super) child: Option<Arc<Child>>,
    /// Tasks that end with the connection.
    tasks: Vec<AbortHandle>,
    /// Whether the server has answered a call.
    pub(super) answered: AtomicBool,
}

/// The time limit and cancel token of a request.
#[derive(Clone, Copy)]
pub(super) struct RequestLimits<'a> {
    pub(super) timeout: Duration,
    pub(super) cancel: &'a CancellationToken,
}

impl Connection {
    pub(super) fn new(
        running: RunningService<RoleClient, ServerRequestHandler>,
        handler: ServerRequestHandler,
        child: Option<Child>,
    ) -> Self {
        let peer = running.peer().clone();
        let mut tasks = Vec::new();
        if let Some(listening) = listen_for_changes(&peer, &handler) {
            tasks.push(tokio::spawn(listening).abort_handle());
        }
        let (child, running) = (child.map(Arc::new), tokio::sync::Mutex::new(Some(running)));
        Self { peer, running, handler, child, tasks, answered: AtomicBool::new(false) }
    }

    /// Returns whether requests can no longer be sent.
    pub(super) fn is_closed(&self) -> bool {
        let is_over = |child: &Arc<Child>| child.life.ending().is_some() || child.life.is_stopping();
        self.peer.is_transport_closed() || self.child.as_ref().is_some_and(is_over)
    }

    /// Returns whether the server is of the stateless era.
    pub(super) fn is_stateless(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
    }

    /// Waits until [`Self::refused`] has the refusals of everything that the server has done so far.
    pub(super) async fn caught_up(&self) {
        if let Some(child) = &self.child {
            child.life.caught_up().await;
        }
    }

    /// Returns the sandbox's refusals of the server so far.
    pub(super) fn refused(&self) -> Vec<Refusal> {
        self.child.as_ref().map(|child| child.life.refused()).unwrap_or_default()
    }

    /// Returns the connections and refusals of a call for the journal; `known` refusals happened before. Those of
    /// concurrent calls count for the call that ends first.
    pub(super) fn noted(&self, known: usize) -> Vec<String> {
        let connections = self.child.as_ref().map(|child| child.life.take_connections()).unwrap_or_default();
        let connected = connections.iter().map(haft_sandbox::confine::Connection::noted);
        let refused = self.refused();
        let refused = refused.iter().skip(known).map(|refusal| format!("refused: {refusal}"));
        connected.chain(refused).collect()
    }

    /// Returns the lines that would allow the refused accesses; not the listings of the directories of its
    /// `scripts`.
    pub(super) fn hints(&self, scripts: &[PathBuf]) -> Vec<String> {
        let Some(child) = &self.child else { return Vec::new() };
        let mut refused = self.refused();
        refused.retain(|refusal| !refusal.is_folder_of(scripts.iter().map(PathBuf::as_path)));
        Refusal::hints(&refused, (&child.grant, &child.table), "")
    }

    /// Returns the lines that would allow the accesses refused during a call that the server answered with the
    /// error `answer`, or the earlier refused ones that the error names. `known` refusals happened before.
    pub(super) fn hints_for(&self, known: usize, answer: &Value) -> Vec<String> {
        let Some(child) = self.child.as_ref().filter(|_| answer["isError"] == true) else {
            return Vec::new();
        };
        let (refused, answer) = (self.refused(), answer.to_string());
        let counts = |(at, refusal): &(usize, &Refusal)| *at >= known || refusal.is_named_in(&answer);
        let refused = refused.iter().enumerate().filter(counts).map(|(_, refusal)| refusal);
        Refusal::hints(refused, (&child.grant, &child.table), &answer)
    }

    pub(super) async fn page(
        &self,
        method: &'static str,
        cursor: Option<String>,
        limits: RequestLimits<'_>,
    ) -> Result<Value, ServerError> {
        let params = cursor.map(|cursor| JsonObject::from_iter([("cursor".to_owned(), cursor.into())]));
        self.read(method, &params.unwrap_or_default(), limits).await
    }

    /// Makes a request of haft. Returns the unmodified result.
    pub(super) async fn read(
        &self,
        method: &'static str,
        params: &JsonObject,
        limits: RequestLimits<'_>,
    ) -> Result<Value, ServerError> {
        value(self.ask(method, params, limits).await?)
    }

    async fn ask(
        &self,
        method: &'static str,
        params: &JsonObject,
        limits: RequestLimits<'_>,
    ) -> Result<ServerResult, ServerError> {
        self.request(method, request_of(method, params)?, None, limits).await
    }

    /// Returns all tools of the server, without secrets.
    pub(super) async fn tools(
        &self,
        limits: RequestLimits<'_>,
        redactor: &Redactor,
    ) -> Result<ToolList, ServerError> {
        let mut listing = ToolListBuilder::new(self.child.is_none() && self.is_stateless());
        if self.peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
            return Ok(listing.finish());
        }
        let mut cursor = None;
        loop {
            let mut result = self.page("tools/list", cursor, limits).await?;
            redactor.clean(&mut result);
            // The schemas of a thousand tools are compiled: that takes a while.
            let read = move || (listing.page(&result), listing);
            let read = tokio::task::spawn_blocking(read).await;
            let (next, read) = read.map_err(|error| ServerError::Protocol(error.to_string()))?;
            (cursor, listing) = (next?, read);
            if cursor.is_none() {
                return Ok(listing.finish());
            }
        }
    }

    /// Makes one request of a caller, once. Returns the unmodified result.
    pub(super) async fn call(
        &self,
        method: &'static str,
        mut params: JsonObject,
        listener: &Listener,
        limits: RequestLimits<'_>,
    ) -> Result<Value, ServerError> {
        for round in 0..MAX_ROUNDS {
            let mut request = request_of(method, &params)?;
            let meta = request.get_meta_mut();
            for (key, value) in listener.meta.iter().flat_map(|meta| meta.iter()) {
                meta.insert(key.clone(), value.clone());
            }
            if let Some(trace) = &listener.trace {
                note_trace(trace, meta);
            }
            let result = self.request(method, request, Some(listener), limits).await;
            let result = if round == 0 { result? } else { result.map_err(ServerError::after_a_part)? };
            self.answered.store(true, Ordering::Relaxed);
            match result {
                ServerResult::InputRequiredResult(required) => {
                    self.answer_input_requests(required, &mut params, (listener, round)).await?;
                }
                ServerResult::CreateTaskResult(created) => {
                    let followed = Box::pin(self.follow(created.task, listener, limits)).await;
                    return followed.map_err(ServerError::after_a_part);
                }
                result => return value(result),
            }
        }
        Err(ServerError::Protocol(format!("it asked for more input {MAX_ROUNDS} times instead of answering")))
    }

    /// Answers the questions that the server asks before it answers the call, and adds the answers to `params`.
    async fn answer_input_requests(
        &self,
        required: InputRequiredResult,
        params: &mut JsonObject,
        (listener, round): (&Listener, usize),
    ) -> Result<(), ServerError> {
        let requests = required.input_requests.unwrap_or_default();
        if requests.is_empty() {
            // The server only asks for a retry, which follows after a pause.
            sleep(Duration::from_millis(50 << round.min(3))).await;
        }
        let responses = requests.into_iter().map(|(key, request)| self.response(key, request, listener));
        // At once: a client may show several questions together.
        let responses: JsonObject = try_join_all(responses).await?.into_iter().collect();
        params.remove("inputResponses");
        params.remove("requestState");
        params.extend((!responses.is_empty()).then(|| ("inputResponses".to_owned(), responses.into())));
        params.extend(required.request_state.map(|state| ("requestState".to_owned(), state.into())));
        Ok(())
    }

    /// Answers one question of the server.
    async fn response(
        &self,
        key: String,
        request: InputRequest,
        listener: &Listener,
    ) -> Result<(String, Value), ServerError> {
        let response = match request {
            InputRequest::Elicitation(request) => {
                let person = self.handler.person_of(Some(listener));
                json!(self.handler.elicit(Some(key.clone()), request.params, person.as_deref()).await)
            }
            InputRequest::ListRoots(_) => json!(self.handler.roots()),
            _ => {
                return Err(ServerError::Protocol(
                    "it requests a model's answer (sampling), which haft does not support".to_owned(),
                ));
            }
        };
        Ok((key, response))
    }

    async fn request(
        &self,
        method: &'static str,
        request: ClientRequest,
        listener: Option<&Listener>,
        limits: RequestLimits<'_>,
    ) -> Result<ServerResult, ServerError> {
        let start = (Instant::now(), self.handler.asking.total());
        let noise = || self.child.as_ref().map(|child| child.wire.noise()).unwrap_or_default();
        let late = || ServerError::TimedOut { method, limit: limits.timeout, noise: noise() };
        let sent = timeout(limits.timeout, self.send(request, listener)).await.map_err(|_| late())?;
        let mut waiting = match sent {
            Ok((handle, call)) => PendingResponse::new(self.child.clone(), handle, call),
            Err(error) => return Err(self.failed(error).await),
        };
        let answer = tokio::select! {
            biased;
            answer = waiting.answer() => answer,
            () = limits.cancel.cancelled() => {
                waiting.cancel("cancelled");
                return Err(ServerError::Cancelled);
            }
            () = self.deadline(start, limits.timeout) => {
                waiting.cancel("timed out");
                return Err(late());
            }
            () = self.died() => None,
        };
        waiting.mark_answered();
        match answer {
            Some(Ok(result)) => Ok(result),
            Some(Err(error)) => Err(self.failed(error).await),
            None => Err(self.ended().await),
        }
    }

    async fn send(
        &self,
        mut request: ClientRequest,
        listener: Option<&Listener>,
    ) -> Result<(RequestHandle<RoleClient>, Option<Arc<Ongoing>>), ServiceError> {
        let mut options = PeerRequestOptions::no_options();
        let Some(listener) = listener else {
            return Ok((self.peer.send_request_with_option(request, options).await?, None));
        };
        if self.is_stateless() {
            let has_person = self.handler.person_of(Some(listener)).is_some();
            // Among the options, because rmcp overwrites the capabilities in the request.
            options.meta = Some(listener.stateless_meta(self.handler.get_info().capabilities, has_person));
        }
        let call = Ongoing::attach(&mut request, listener, &self.handler.server);
        Ok((self.peer.send_request_with_option(request, options).await?, Some(call)))
    }

    /// Returns after the time limit. The user's time for answers does not count.
    async fn deadline(&self, (start, asked): (Instant, Duration), limit: Duration) {
        loop {
            let end = start + limit + self.handler.asking.total().saturating_sub(asked);
            if Instant::now() >= end {
                return;
            }
            sleep_until(end.max(Instant::now() + Duration::from_millis(50))).await;
        }
    }

    /// Ends when the server's process has exited, and its last output was read.
    async fn died(&self) {
        match &self.child {
            Some(child) => {
                drop(child.life.ended().await);
                sleep(DYING).await;
            }
            None => std::future::pending().await,
        }
    }

    async fn failed(&self, error: ServiceError) -> ServerError {
        match error {
            ServiceError::McpError(error) => error.into(),
            ServiceError::TransportClosed => self.ended().await,
            // Too many messages are queued: the server may be busy, and has not ended.
            ServiceError::TransportSend(error) if is_full(error.error.as_ref()) => ServerError::Stuck,
            ServiceError::TransportSend(_) if self.child.is_some() => self.ended().await,
            ServiceError::TransportSend(error) => from_transport_error(error.error.as_ref()),
            ServiceError::UnexpectedResponse => {
                ServerError::Protocol("its answer does not fit the request".to_owned())
            }
            error => ServerError::Protocol(error.to_string()),
        }
    }

    /// Returns the error for the end of the server. A server that has not exited is stopped, because it is
    /// unreachable.
    async fn ended(&self) -> ServerError {
        match &self.child {
            Some(child) => ended(child).await,
            None => ServerError::Lost("the connection was closed".to_owned()),
        }
    }

    /// Ends the server in order: closes its input, waits, and kills it after a time limit.
    pub(super) async fn close(&self) {
        if let Some(running) = self.running.lock().await.take() {
            let _: Result<_, _> = timeout(CLOSE, running.cancel()).await;
        }
        if let Some(child) = &self.child {
            child.life.shut_down(PATIENCE).await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Returns whether a message was not sent since too many wait.
fn is_full(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

fn value(result: ServerResult) -> Result<Value, ServerError> {
    let value = match result {
        ServerResult::CustomResult(CustomResult(value)) => Ok(value),
        result => serde_json::to_value(result),
    };
    value.map(message::whole).map_err(|error| ServerError::Protocol(error.to_string()))
}

/// Adds the trace context to a request (SEP-414).
fn note_trace(trace: &TraceParent, meta: &mut RequestMetaObject) {
    meta.set_traceparent(trace.to_string());
    if let Some(state) = &trace.state {
        meta.set_tracestate(&**state);
    }
}
