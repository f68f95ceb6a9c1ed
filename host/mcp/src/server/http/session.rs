//! One session: what answers its requests, the streams that its client reads, the requests under way, and the questions
//! that its client has not answered.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hyper::StatusCode;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ErrorData, JsonRpcMessage,
    ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerNotification, ServerRequest,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::events::{EventStream, Ids, LastEvent};
use crate::server::handler::Handler;
use crate::server::message::MAX_BATCH;
use crate::server::requester::{Agreed, Link};
use crate::server::tool_news::ToolNews;
use haft_core::sync::Lock;

/// How long an answer can be asked for again.
const REPEATABLE: Duration = Duration::from_secs(30);

/// Answers of a session that can be asked for again: as many calls as a client makes at one time.
const KEPT: usize = 16;

/// Bytes of their streams. One alone may be longer.
const MAX_KEPT: usize = 1 << 20;

/// Bytes of the streams of all sessions that can be asked for again: a larger one, and what comes then, is not kept.
pub(super) const MAX_ALL_KEPT: usize = 64 << 20;

/// One session.
pub(super) struct Session {
    pub(super) handler: Handler,
    pub(super) agreed: Agreed,
    pub(super) news: ToolNews,
    /// What its client reads without a request.
    pub(super) events: Arc<EventStream>,
    state: Lock<State>,
    /// Bytes that all sessions may keep.
    room: Arc<Semaphore>,
    /// Cancelled when the session is over.
    life: CancellationToken,
}

#[derive(Default)]
struct State {
    /// Requests that there were.
    requests: u64,
    /// Streams of calls, by the numbers of the requests.
    streams: HashMap<u64, Arc<EventStream>>,
    /// Those that are answered, in this order.
    ended: VecDeque<Ended>,
    /// The requests under way: their numbers, what stops them, and the streams of those that have one.
    running: HashMap<RequestId, (u64, CancellationToken, Option<Arc<EventStream>>)>,
    /// Where the answers to questions are waited for.
    asked: HashMap<i64, oneshot::Sender<Result<ClientResult, ErrorData>>>,
    next_question: i64,
}

/// A stream that is answered.
struct Ended {
    number: u64,
    at: Instant,
    bytes: usize,
    _room: OwnedSemaphorePermit,
}

/// A request under way. Dropped, it is over, and so is its stream.
pub(super) struct Running {
    session: Arc<Session>,
    id: RequestId,
    number: u64,
    pub(super) cancel: CancellationToken,
    /// The stream that it is answered in, where that is one.
    pub(super) stream: Option<Arc<EventStream>>,
}

/// The way to the client of a session: by the stream of a request, or by that without one.
struct SessionLink {
    session: Arc<Session>,
    stream: Arc<EventStream>,
}

impl Session {
    /// A session whose answers are kept as far as there is `room` for their bytes.
    pub(super) fn new(handler: Handler, agreed: Agreed, room: Arc<Semaphore>) -> Self {
        let (news, events) = (ToolNews::default(), EventStream::new(Ids::Session));
        Self { handler, agreed, news, events, state: Lock::default(), room, life: CancellationToken::new() }
    }

    /// Whether its client takes events without data, as revisions from 2025-11-25 on have them. Earlier ones report an event
    /// that is no message as an error.
    pub(super) fn primes(&self) -> bool {
        self.agreed.version >= ProtocolVersion::V_2025_11_25
    }

    /// Begins the request `id`, with a stream that its answer comes in where it `has_stream`.
    ///
    /// # Errors
    /// A request of this id, or too many others, are under way.
    pub(super) fn begin(self: &Arc<Self>, id: RequestId, has_stream: bool) -> Result<Running, ErrorData> {
        let cancel = self.life.child_token();
        let mut state = self.state.lock();
        if state.running.contains_key(&id) {
            return Err(ErrorData::invalid_request("a request of this id is under way", None));
        }
        if state.running.len() >= MAX_BATCH {
            let why = format!("{MAX_BATCH} requests of this session are under way: try again later");
            return Err(ErrorData::invalid_request(why, None));
        }
        let number = state.requests;
        state.requests += 1;
        let stream = has_stream.then(|| EventStream::new(Ids::Request(number)));
        state.streams.extend(stream.clone().map(|stream| (number, stream)));
        state.running.insert(id.clone(), (number, cancel.clone(), stream.clone()));
        drop(state);
        Ok(Running { session: self.clone(), id, number, cancel, stream })
    }

    /// Stops a request that its client takes back: it is not answered.
    pub(super) fn cancel(&self, id: &RequestId) {
        let Some((_, cancel, stream)) = self.state.lock().running.remove(id) else { return };
        cancel.cancel();
        if let Some(stream) = stream {
            stream.end();
        }
    }

    /// Takes the client's answer to a question.
    pub(super) fn answered(&self, id: &RequestId, answer: Result<ClientResult, ErrorData>) {
        let number = match id {
            RequestId::Number(number) => Some(*number),
            // Some clients write every id as a text.
            RequestId::String(text) => text.parse().ok(),
        };
        let waiting = number.and_then(|number| self.state.lock().asked.remove(&number));
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
    }

    /// The way to the client by the stream that it reads without a request.
    pub(super) fn link(self: &Arc<Self>) -> impl Link + use<> {
        SessionLink { session: self.clone(), stream: self.events.clone() }
    }

    /// The stream of which `last` is an event.
    pub(super) fn stream(&self, last: &LastEvent) -> Option<Arc<EventStream>> {
        match last.request {
            Some(number) => self.state.lock().streams.get(&number).cloned(),
            None => Some(self.events.clone()),
        }
    }

    /// Forgets what nobody asks for any more, and events that nobody reads where the session is not in use.
    pub(super) fn forget_old(&self, is_in_use: bool) {
        if !is_in_use {
            self.events.forget_old();
        }
        let mut state = self.state.lock();
        while state.ended.front().is_some_and(|ended| ended.at.elapsed() >= REPEATABLE) {
            state.forget_oldest();
        }
    }

    /// Ends the session: its requests are stopped, and its streams end.
    pub(super) fn end(&self) {
        self.life.cancel();
        self.events.end();
        let streams = std::mem::take(&mut self.state.lock().streams);
        for stream in streams.values() {
            stream.end();
        }
    }
}

impl State {
    /// Notes that a stream is answered, and forgets older ones that are too many; the stream itself where `room` has no
    /// place for it. A connection that reads it goes on.
    fn end_stream(&mut self, number: u64, bytes: usize, room: &Arc<Semaphore>) {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Ok(permit) = room.clone().try_acquire_many_owned(permits) else {
            self.streams.remove(&number);
            return;
        };
        self.ended.push_back(Ended { number, at: Instant::now(), bytes, _room: permit });
        let size = |ended: &VecDeque<Ended>| ended.iter().map(|ended| ended.bytes).sum::<usize>();
        while self.ended.len() > KEPT || (self.ended.len() > 1 && size(&self.ended) > MAX_KEPT) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.ended.pop_front() {
            self.streams.remove(&oldest.number);
        }
    }
}

impl Running {
    /// The way to the client for what comes before the answer.
    pub(super) fn link(&self) -> Arc<dyn Link> {
        let stream = self.stream.as_ref().unwrap_or(&self.session.events).clone();
        Arc::new(SessionLink { session: self.session.clone(), stream })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(stream) =
            self.stream.as_ref().filter(|stream| !stream.is_over() && !self.cancel.is_cancelled())
        {
            let why = "haft could not handle the request; this is a defect of haft";
            let error = ErrorData::internal_error(why, None);
            let message: ServerJsonRpcMessage = JsonRpcMessage::error(error, Some(self.id.clone()));
            stream.answer(serde_json::to_vec(&message).unwrap_or_default().into(), StatusCode::OK);
        }
        let mut state = self.session.state.lock();
        // The id may be that of another request by now.
        if state.running.get(&self.id).is_some_and(|(number, ..)| *number == self.number) {
            state.running.remove(&self.id);
        }
        if let Some(stream) = &self.stream {
            stream.end();
            state.end_stream(self.number, stream.size(), &self.session.room);
        }
    }
}

#[async_trait]
impl Link for SessionLink {
    fn tell(&self, notification: ServerNotification, is_piece: bool) -> bool {
        self.stream.tell(notification, is_piece)
    }

    async fn ask(&self, form: ElicitRequestParams) -> Result<ElicitResult, String> {
        let (sender, answer) = oneshot::channel();
        let number = {
            let mut state = self.session.state.lock();
            state.next_question += 1;
            let number = state.next_question;
            state.asked.insert(number, sender);
            number
        };
        let question = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let message: ServerJsonRpcMessage = JsonRpcMessage::request(question, RequestId::Number(number));
        let _asked = Asked { session: &self.session, number };
        if !self.stream.append(&message, false) {
            return Err("it does not read what it is sent".into());
        }
        match answer.await {
            Ok(Ok(ClientResult::ElicitResult(result))) => Ok(result),
            Ok(Ok(_)) => Err("it answered what it was not asked".into()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("its session is over".into()),
        }
    }
}

/// A question that waits for its answer. Dropped, it does not.
struct Asked<'s> {
    session: &'s Session,
    number: i64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.session.state.lock().asked.remove(&self.number);
    }
}
