//! Sessions of clients (revisions up to 2025-11-25), kept in memory: after a restart clients get 404 and open new
//! ones. Their number is bounded. A new session may replace only one that has been idle for long. With several
//! replicas, the id of a session names its replica ([`Home`]). An idle session consists of its client's handler and
//! some small tables: no task and no channel. An answer that was sent in a stream can be fetched again for a while.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hyper::StatusCode;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ElicitRequestParams, ElicitResult, ErrorData, JsonRpcRequest,
    ProtocolVersion, ServerNotification,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::response::{EventStream, Ids, LastEvent, Refusal, StreamGuard};
use crate::server::conversation::{Agreed, Conversation, Link, Running, Said};
use crate::server::handler::{Handler, ToolNews};
use haft_core::random;
use haft_core::sync::Lock;

/// Maximum idle time of a session: long enough for a lunch break.
const IDLE: Duration = Duration::from_hours(1);

/// Idle time after which a session may be closed for a new one, if all places are taken.
const ABANDONED: Duration = Duration::from_mins(10);

/// Idle limit of a session whose client sent nothing after opening it; clients send something at once.
const UNUSED: Duration = Duration::from_mins(1);

/// Interval of removing ended sessions.
const SWEEP: Duration = Duration::from_secs(10);

/// The part of all places that a caller may take before its idle sessions give way to those of others.
const SHARE: usize = 8;

/// Separates the random part of an id from the home of the session.
const AT: char = '@';

/// Maximum number of characters of a machine's name in an id.
const MAX_NAME: usize = 64;

/// The error for an unknown session.
const MISSING: &str = "unknown session";

/// Time during which an answer can be fetched again.
const REPEATABLE: Duration = Duration::from_secs(30);

/// Maximum number of answers of a session that can be fetched again: as many calls as a client makes at one time.
const KEPT: usize = 16;

/// Maximum number of bytes of their streams. A single stream may be longer.
const MAX_KEPT: usize = 1 << 20;

/// Maximum size in bytes of the kept streams of all sessions: streams beyond it are not kept.
const MAX_ALL_KEPT: usize = 64 << 20;

pub(super) struct Sessions {
    most: usize,
    /// The home in the ids of sessions, if there are other replicas.
    home: Option<Home>,
    all: Lock<HashMap<Arc<str>, Entry>>,
    /// Notified of each opened session.
    opened: Notify,
    /// Bytes of answers that all of them may keep.
    room: Arc<Semaphore>,
}

/// The name of a replica: of its machine, and its port there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home(String);

/// A session and its use.
struct Entry {
    id: Arc<str>,
    session: Arc<Session>,
    /// The caller that opened the session; no other caller uses it.
    owner: Arc<str>,
    /// Running requests and streams.
    open: usize,
    last: Instant,
    /// Whether the client sent a request after it opened the session.
    came_back: bool,
}

/// A session in use. Dropped, it is not.
pub(super) struct SessionGuard {
    sessions: Arc<Sessions>,
    id: Arc<str>,
    session: Arc<Session>,
}

/// A session: its handler, the streams that its client reads, and the open requests of both sides.
pub(super) struct Session {
    pub(super) handler: Handler,
    pub(super) agreed: Agreed,
    pub(super) news: ToolNews,
    /// The events that the client reads without a request.
    pub(super) events: Arc<EventStream>,
    conversation: Arc<Conversation>,
    streams: Lock<Streams>,
    /// Bytes that all sessions may keep.
    room: Arc<Semaphore>,
}

/// The streams of a session's calls.
#[derive(Default)]
struct Streams {
    /// By the numbers of the requests.
    all: HashMap<u64, Arc<EventStream>>,
    /// The answered streams, in this order.
    ended: VecDeque<Ended>,
}

/// A stream that is answered.
struct Ended {
    number: u64,
    at: Instant,
    bytes: usize,
    _room: OwnedSemaphorePermit,
}

/// A running request of a session. A drop ends it and its stream.
pub(super) struct SessionRequest {
    session: Arc<Session>,
    pub(super) running: Running,
    /// The stream with the answer, if there is one.
    pub(super) stream: Option<StreamGuard>,
}

/// The way to the client of a session: the stream of a request, or the stream without a request.
struct SessionLink {
    session: Arc<Session>,
    stream: Arc<EventStream>,
}

impl Sessions {
    /// Creates a table of at most `most` sessions, whose ids name `home` if given.
    pub(super) fn new(most: usize, home: Option<Home>) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(MAX_ALL_KEPT));
        Arc::new(Self { most, home, all: Lock::default(), opened: Notify::new(), room })
    }

    /// Opens a session of `owner`, whose requests `handler` answers; returns its id.
    ///
    /// # Errors
    /// All places are taken by sessions in use, or the system gives no random numbers.
    pub(super) fn open(
        &self,
        owner: Arc<str>,
        handler: Handler,
        agreed: Agreed,
    ) -> Result<Arc<str>, Refusal> {
        let id = self.home.as_ref().map_or_else(random::name::<{ random::KEY }>, Home::session_id);
        let id: Arc<str> =
            id.map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?.into();
        let session = Arc::new(Session::new(handler, agreed, self.room.clone()));
        let (own, last) = (id.clone(), Instant::now());
        let opened = Entry { id: own, session, owner, open: 0, last, came_back: false };
        let mut all = self.all.lock();
        if all.len() >= self.most {
            let mut counts: HashMap<&str, usize> = HashMap::new();
            all.values().for_each(|entry| *counts.entry(&entry.owner).or_default() += 1);
            let has_too_many = |entry: &Entry| {
                let count = counts.get(&*entry.owner).copied().unwrap_or_default();
                entry.owner != opened.owner && entry.open == 0 && count > (self.most / SHARE).max(1)
            };
            let idle = all.iter().filter(|(_, entry)| entry.gives_way() || has_too_many(entry));
            let oldest = idle.min_by_key(|(_, own)| own.last).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else {
                let why = "all sessions are in use; try again later";
                return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
            };
            tracing::debug!("closed the session with the longest idle time to open a new one");
            all.remove(&oldest);
        }
        all.insert(id.clone(), opened);
        drop(all);
        self.opened.notify_one();
        Ok(id)
    }

    /// Returns the session `id` for a request of `caller`.
    ///
    /// # Errors
    /// The session does not exist: another caller opened it, or it belongs to another replica.
    pub(super) fn enter(self: &Arc<Self>, id: &str, caller: &str) -> Result<SessionGuard, Refusal> {
        let mut all = self.all.lock();
        let own = all.get_mut(id);
        let is_here = own.is_some();
        if let Some(own) = own.filter(|own| *own.owner == *caller) {
            own.open += 1;
            own.came_back = true;
            let (id, session) = (own.id.clone(), own.session.clone());
            return Ok(SessionGuard { sessions: self.clone(), id, session });
        }
        drop(all);
        // Another caller's session is reported as unknown, so that no caller learns of others' sessions.
        let elsewhere = self.home.as_ref().filter(|_| !is_here).and_then(|home| home.refusal(id));
        Err(Refusal::new(StatusCode::NOT_FOUND, elsewhere.unwrap_or_else(|| MISSING.to_owned())))
    }

    /// Ends a session on request of its client.
    pub(super) fn end(&self, session: &SessionGuard) {
        self.all.lock().remove(&session.id);
    }

    /// Removes ended sessions. Does not return.
    pub(super) async fn tidy(self: Arc<Self>) {
        loop {
            let opened = self.opened.notified();
            if self.all.lock().is_empty() {
                opened.await;
            }
            tokio::time::sleep(SWEEP).await;
            self.sweep();
        }
    }

    fn sweep(&self) {
        self.all.lock().retain(|_, own| {
            own.session.forget_old(own.open > 0);
            own.open > 0 || own.last.elapsed() < IDLE
        });
    }
}

impl Home {
    /// Returns the replica that listens at `port` of `machine`.
    pub(super) fn named(machine: &str, port: u16) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let machine: String = machine.chars().take(MAX_NAME).map(plain).collect();
        Self(format!("{machine}-{port}"))
    }

    fn session_id(&self) -> io::Result<String> {
        Ok(format!("{}{AT}{}", random::name::<{ random::KEY }>()?, self.0))
    }

    /// Returns the reason why a session is not here, if its id names another home.
    fn refusal(&self, id: &str) -> Option<String> {
        let (_, home) = id.rsplit_once(AT)?;
        let is_name = home.len() <= MAX_NAME + 8
            && home.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
        (is_name && home != self.0).then(|| {
            format!(
                "this session belongs to the replica `{home}`; this is `{}`: open a new session with \
                 `initialize`, or route all requests with one Mcp-Session-Id to one replica",
                self.0
            )
        })
    }
}

impl Entry {
    /// Returns whether the session may be closed for a new one.
    fn gives_way(&self) -> bool {
        let enough = if self.came_back { ABANDONED } else { UNUSED };
        self.open == 0 && self.last.elapsed() >= enough
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.session.end();
    }
}

impl Deref for SessionGuard {
    type Target = Arc<Session>;

    fn deref(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if let Some(own) = self.sessions.all.lock().get_mut(&self.id) {
            own.open = own.open.saturating_sub(1);
            own.last = Instant::now();
        }
    }
}

impl Session {
    /// Creates a session whose answers are kept while `room` has space for their bytes.
    fn new(handler: Handler, agreed: Agreed, room: Arc<Semaphore>) -> Self {
        let (news, events) = (ToolNews::default(), EventStream::new(Ids::Session));
        let (conversation, streams) = Default::default();
        Self { handler, agreed, news, events, conversation, streams, room }
    }

    /// Returns whether the client accepts events without data, as defined by revisions from 2025-11-25 on. Clients
    /// of earlier revisions report such an event as an error.
    pub(super) fn primes(&self) -> bool {
        self.agreed.version >= ProtocolVersion::V_2025_11_25
    }

    /// Begins a request, with a stream for its answer if it `has_stream`.
    ///
    /// # Errors
    /// A request of this id, or too many others, are running.
    pub(super) fn begin(
        self: &Arc<Self>,
        request: &JsonRpcRequest<ClientRequest>,
        has_stream: bool,
    ) -> Result<SessionRequest, ErrorData> {
        // All bodies of a server share one limit (`Bodies`).
        let running = self.conversation.begin(request, 0)?;
        let stream = has_stream.then(|| EventStream::new(Ids::Request(running.number)));
        self.streams.lock().all.extend(stream.clone().map(|stream| (running.number, stream)));
        let stream = stream.map(|stream| StreamGuard { stream, id: request.id.clone() });
        Ok(SessionRequest { session: self.clone(), running, stream })
    }

    /// Processes a message that is not a request.
    pub(super) fn take(&self, message: ClientJsonRpcMessage) {
        match self.conversation.take(message) {
            Some(Said::Opened) => self.news.begin(&self.handler.shared.snapshots),
            Some(Said::TakenBack(number)) => {
                if let Some(stream) = self.streams.lock().all.get(&number) {
                    stream.end();
                }
            }
            None => {}
        }
    }

    /// Returns the way to the client by the stream that it reads without a request.
    pub(super) fn link(self: &Arc<Self>) -> impl Link + use<> {
        SessionLink { session: self.clone(), stream: self.events.clone() }
    }

    pub(super) fn stream(&self, last: &LastEvent) -> Option<Arc<EventStream>> {
        match last.request {
            Some(number) => self.streams.lock().all.get(&number).cloned(),
            None => Some(self.events.clone()),
        }
    }

    /// Drops expired answers, and unread events if the session is not in use.
    fn forget_old(&self, is_in_use: bool) {
        if !is_in_use {
            self.events.forget_old();
        }
        let mut streams = self.streams.lock();
        while streams.ended.front().is_some_and(|ended| ended.at.elapsed() >= REPEATABLE) {
            streams.forget_oldest();
        }
    }

    /// Ends the session: its requests are stopped, and its streams end.
    fn end(&self) {
        self.conversation.end();
        self.events.end();
        let streams = std::mem::take(&mut self.streams.lock().all);
        for stream in streams.values() {
            stream.end();
        }
    }
}

impl Streams {
    /// Records that a stream is answered, and drops the oldest streams beyond the limit, or this stream if `room`
    /// is full. A connection that reads the stream continues.
    fn end(&mut self, number: u64, bytes: usize, room: &Arc<Semaphore>) {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Ok(permit) = room.clone().try_acquire_many_owned(permits) else {
            self.all.remove(&number);
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
            self.all.remove(&oldest.number);
        }
    }
}

impl SessionRequest {
    /// Returns the channel to the client for notifications before the answer.
    pub(super) fn link(&self) -> Arc<dyn Link> {
        let own = self.stream.as_ref().map(|guard| &guard.stream);
        let stream = own.unwrap_or(&self.session.events).clone();
        Arc::new(SessionLink { session: self.session.clone(), stream })
    }
}

impl Drop for SessionRequest {
    fn drop(&mut self) {
        if let Some(guard) = self.stream.take() {
            let stream = guard.stream.clone();
            drop(guard);
            let mut streams = self.session.streams.lock();
            streams.end(self.running.number, stream.size(), &self.session.room);
        }
    }
}

#[async_trait]
impl Link for SessionLink {
    fn tell(&self, notification: ServerNotification, is_piece: bool) -> bool {
        self.stream.tell(notification, is_piece)
    }

    async fn ask(&self, form: ElicitRequestParams) -> Result<ElicitResult, String> {
        self.session.conversation.ask(form, |question| self.stream.append(question, false)).await
    }
}

#[cfg(test)]
mod tests;
