//! Sessions of clients (revisions up to 2025-11-25), kept in memory: after a restart clients get 404 and open new ones.
//! Their number is bounded. A new session may replace only one that has been idle for long. Where there are other replicas,
//! the id of a session says where it lives (`home`).
//!
//! rmcp has a session, with a task and channels of its own (60 KiB), for as long as it has messages for it. After that
//! the session rests: what is left is how it was opened and its handler, and rmcp opens it again from
//! that when it has to (as it does for a session of another server, by a `SessionStore`).

mod home;
mod resting;
mod session_use;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

pub(super) use self::home::Home;
use self::session_use::{IDLE, KEPT, Opening, SessionUse};
use crate::server::handler::{Handler, ServerShared};
use haft_core::sync::Lock;
use rmcp::model::{
    ClientJsonRpcMessage, JsonRpcMessage, ProtocolVersion, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{RestoreOutcome, ServerSseMessage, SessionId};
use tokio::sync::Notify;
use tokio_stream::{Stream, StreamExt};

/// How long a new session waits for its first message.
const OPENING: Duration = Duration::from_secs(10);

/// Answered requests whose answers can be asked for again, for this long, after a connection broke.
const REPEATABLE: Duration = Duration::from_secs(30);

/// Messages of one stream that wait to be sent.
const WAITING: usize = 8;

/// After how long a client asks again for a stream that broke.
pub(super) const RETRY: Duration = Duration::from_secs(3);

/// The id of the event that begins a stream of a client without a request.
const FIRST_EVENT: &str = "0";

/// What is said of a session that is not there.
pub(super) const MISSING: &str = "there is no such session";

tokio::task_local! {
    static REQUEST: Observed;
}

/// What is noted of a request while rmcp answers it.
#[derive(Default)]
struct Observed {
    /// Whom it comes from.
    client: Option<ServerShared>,
    /// Whether a session was refused for want of room: rmcp has one answer to whatever keeps a session from being made.
    is_refused: Cell<bool>,
    /// The handler that was made: rmcp makes it before the session that is its own.
    made: RefCell<Option<Arc<Handler>>>,
    /// The handler of a session that is opened again, which rmcp is to take.
    kept: RefCell<Option<Arc<Handler>>>,
}

/// The sessions of a server.
pub(super) struct Sessions {
    manager: LocalSessionManager,
    most: usize,
    /// Where they live, where there are other replicas.
    home: Option<Home>,
    uses: Lock<HashMap<SessionId, SessionUse>>,
    /// Told of each that is opened.
    opened: Notify,
}

/// A session in use. Dropped, it is not.
pub(super) struct SessionGuard {
    sessions: Arc<Sessions>,
    id: SessionId,
    handler: Option<Arc<Handler>>,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("all sessions are in use")]
    Full,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Sessions {
    /// At most `most` sessions at once, whose ids say `home` where there is one.
    pub(super) fn new(most: usize, home: Option<Home>) -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.channel_capacity = WAITING;
        // rmcp does not see short calls: a client that made the last of them right before `KEPT` has all of `IDLE` too.
        manager.session_config.keep_alive = Some(IDLE.saturating_add(KEPT));
        manager.session_config.init_timeout = Some(OPENING);
        manager.session_config.completed_cache_ttl = REPEATABLE;
        manager.session_config.sse_retry = Some(RETRY);
        Self { manager, most, home, uses: Lock::default(), opened: Notify::new() }
    }

    fn uses(&self) -> MutexGuard<'_, HashMap<SessionId, SessionUse>> {
        self.uses.lock()
    }

    /// Whether there is such a session.
    pub(super) fn has(&self, id: &str) -> bool {
        self.uses().contains_key(id)
    }

    /// Why `caller` cannot have the session `id` here, where another caller opened it, or another replica.
    pub(super) fn refusal(&self, id: &str, caller: &str) -> Option<String> {
        match self.uses().get(id) {
            // As of one that is not there: who else has which sessions is nobody's business.
            Some(own) => (*own.owner != *caller).then(|| MISSING.to_owned()),
            None => self.home.as_ref()?.refusal(id),
        }
    }

    /// Notes that a session is used; nothing for one that is not there. `comes_back`: by a client that
    /// knows it, not by the one it is just being opened for.
    pub(super) fn enter(self: &Arc<Self>, id: &str, comes_back: bool) -> Option<SessionGuard> {
        let mut uses = self.uses();
        let own = uses.get_mut(id)?;
        own.open += 1;
        own.came_back |= comes_back;
        let handler = own.quick_handler();
        Some(SessionGuard { sessions: self.clone(), id: SessionId::from(id), handler })
    }

    /// Notes that rmcp gets a message of a session.
    fn keep(&self, id: &SessionId) {
        if let Some(own) = self.uses().get_mut(id) {
            own.kept = Instant::now();
        }
    }

    /// A handler for rmcp: that of the session that is opened again for a request, else a new one for whom it comes
    /// from, which is that of the session that is opened next for it.
    pub(super) fn handler() -> io::Result<Arc<Handler>> {
        let handler = REQUEST.try_with(|request| {
            let make = || request.client.as_ref().map(|client| Arc::new(client.handler()));
            let handler = request.kept.take().or_else(make)?;
            request.made.replace(Some(handler.clone()));
            Some(handler)
        });
        handler.ok().flatten().ok_or_else(|| io::Error::other("a request without a caller, a defect of haft"))
    }

    /// Forgets a session that its client ends.
    pub(super) fn forget(&self, id: &str) {
        self.uses().remove(id);
    }

    /// Answers a request of `client` by `answer`. Whether a session was refused for it for want of room, too.
    pub(super) async fn observe_refusal<T>(
        client: Option<ServerShared>,
        answer: impl Future<Output = T>,
    ) -> (T, bool) {
        let answered = async {
            let answer = answer.await;
            (answer, REQUEST.with(|request| request.is_refused.get()))
        };
        REQUEST.scope(Observed { client, ..Observed::default() }, answered).await
    }

    /// Takes a place for the session `id`, where there is one. The session that has to be closed for it.
    fn reserve(&self, id: &SessionId) -> Result<Option<SessionId>, SessionError> {
        let mut uses = self.uses();
        let mut closed = None;
        if uses.len() >= self.most {
            let idle = uses.iter().filter(|(_, used)| used.gives_way());
            let oldest = idle.min_by_key(|(_, used)| used.last).map(|(id, _)| id.clone());
            let oldest = oldest.ok_or(SessionError::Full)?;
            uses.remove(&oldest);
            closed = Some(oldest);
        }
        let handler = REQUEST.try_with(|request| request.made.take()).ok().flatten();
        let owner = |request: &Observed| request.client.as_ref().map(|client| client.caller().clone());
        let owner = REQUEST.try_with(owner).ok().flatten().unwrap_or_default();
        uses.insert(id.clone(), SessionUse { handler, ..SessionUse::new(owner) });
        self.opened.notify_one();
        Ok(closed)
    }

    /// Whether events without data may be sent to the client of a session.
    fn primes(&self, id: &SessionId) -> bool {
        self.uses().get(id).is_some_and(|used| used.primes)
    }

    /// What the client of `id` gets of `events`: before 2025-11-25 every event was a message, and
    /// clients report one that is none as an error.
    fn visible_events<S>(&self, id: &SessionId, events: S) -> impl Stream<Item = ServerSseMessage> + use<S>
    where
        S: Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    {
        let primes = self.primes(id);
        events.filter(move |event| primes || event.message.is_some())
    }
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionError> {
        let (id, transport) = match &self.home {
            Some(home) => home.open(&self.manager).await?,
            None => self.manager.create_session().await?,
        };
        match self.reserve(&id) {
            Ok(None) => {}
            Ok(Some(evicted)) => {
                tracing::debug!("the session that was left alone for longest is closed for a new one");
                self.manager.close_session(&evicted).await?;
            }
            Err(error) => {
                let _ = REQUEST.try_with(|request| request.is_refused.set(true));
                self.manager.close_session(&id).await?;
                return Err(error);
            }
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        let opening = Opening::of(&message);
        let answer = self.manager.initialize_session(id, message).await?;
        if let JsonRpcMessage::Response(response) = &answer
            && let ServerResult::InitializeResult(result) = &response.result
            && let Some(own) = self.uses().get_mut(id)
        {
            own.primes = result.protocol_version >= ProtocolVersion::V_2025_11_25;
            own.opening = opening;
        }
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.has(id) && self.manager.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        if self.has_only_gone_to_rest(id) {
            return Ok(());
        }
        self.uses().remove(id);
        Ok(self.manager.close_session(id).await?)
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Self::Transport>, SessionError> {
        let handler = match self.uses().get(&id) {
            Some(own) => own.handler.clone(),
            None => return Ok(RestoreOutcome::NotSupported),
        };
        let restored = self.manager.restore_session(id.clone()).await?;
        if let Some(used) = self.uses().get_mut(&id) {
            (used.is_awake, used.kept) = (true, Instant::now());
        }
        let _ = REQUEST.try_with(|request| request.kept.replace(handler));
        Ok(restored)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        self.keep(id);
        let events = self.manager.create_stream(id, message).await?;
        Ok(self.visible_events(id, events))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        self.keep(id);
        Ok(self.manager.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let events = self.manager.create_standalone_stream(id).await?;
        let first = ServerSseMessage::priming(FIRST_EVENT, RETRY);
        Ok(self.visible_events(id, tokio_stream::once(first).chain(events)))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let events = self.manager.resume(id, last_event_id).await?;
        Ok(self.visible_events(id, events))
    }
}

impl SessionGuard {
    /// What handles its requests; nothing where rmcp has to have the next one.
    pub(super) fn handler(&self) -> Option<Arc<Handler>> {
        self.handler.clone()
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if let Some(used) = self.sessions.uses().get_mut(&self.id) {
            used.open = used.open.saturating_sub(1);
            used.last = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::session_use::ABANDONED;
    use super::*;

    /// C05: places are reserved before the first await, so that no two sessions take the same.
    #[tokio::test]
    async fn c05_a_full_house_takes_nobody_in_and_turns_nobody_out() {
        let sessions = Arc::new(Sessions::new(2, None));
        let (first, _first) = sessions.create_session().await.unwrap();
        let (second, _second) = sessions.create_session().await.unwrap();
        let (third, is_refused) = Sessions::observe_refusal(None, sessions.create_session()).await;
        assert!(matches!(third.err().unwrap(), SessionError::Full) && is_refused);
        assert!(sessions.has(&first) && sessions.has(&second));
        assert_eq!(sessions.manager.sessions.read().await.len(), 2, "the refused one is closed");
        sessions.uses().get_mut(&second).unwrap().last = Instant::now().checked_sub(ABANDONED).unwrap();
        let (third, is_refused) = Sessions::observe_refusal(None, sessions.create_session()).await;
        assert!(third.is_ok() && !is_refused);
        assert!(sessions.has(&first) && !sessions.has(&second), "the one that was left has gone");
    }
}
