//! The sessions that clients opened (revisions up to 2025-11-25). There is room for a number of them;
//! the one that nobody has used for longest makes room for a new one. Its client is told that it is
//! unknown when it comes back, and opens another, as the protocol has it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

/// Sessions at once. One holds some ten KiB.
const MAX_SESSIONS: usize = 128;

/// How long a session may be left alone: a person comes back from lunch to the same one.
const IDLE: Duration = Duration::from_hours(1);

/// How long a new session waits for its first message.
const OPENING: Duration = Duration::from_secs(10);

/// Answered requests whose answers can be asked for again, for this long, after a connection broke.
const REPEATABLE: Duration = Duration::from_secs(30);

/// The sessions of a server. Clones share them.
#[derive(Clone)]
pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    uses: Arc<Mutex<HashMap<SessionId, Use>>>,
}

#[derive(Clone, Copy)]
struct Use {
    /// Requests and streams under way.
    open: usize,
    last: Instant,
}

/// A session in use. Dropped, it is not.
pub(super) struct InUse {
    sessions: Sessions,
    id: SessionId,
}

impl Sessions {
    pub(super) fn new() -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(IDLE);
        manager.session_config.init_timeout = Some(OPENING);
        manager.session_config.completed_cache_ttl = REPEATABLE;
        Self { manager: Arc::new(manager), uses: Arc::default() }
    }

    pub(super) fn manager(&self) -> Arc<LocalSessionManager> {
        self.manager.clone()
    }

    /// Makes room for a new session; `false` where all are in use.
    pub(super) async fn make_room(&self) -> bool {
        let there: HashSet<SessionId> = self.manager.sessions.read().await.keys().cloned().collect();
        if there.len() < MAX_SESSIONS {
            return true;
        }
        let Some(oldest) = self.oldest(&there) else { return false };
        tracing::debug!("the session that was idle for longest is closed for a new one");
        self.manager.close_session(&oldest).await.is_ok()
    }

    /// The session of those that are `there` that nobody has used for longest.
    fn oldest(&self, there: &HashSet<SessionId>) -> Option<SessionId> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.retain(|id, _| there.contains(id));
        let idle = uses.iter().filter(|(_, used)| used.open == 0);
        idle.min_by_key(|(_, used)| used.last).map(|(id, _)| id.clone())
    }

    /// Notes that a session is used; nothing for one that is not there.
    pub(super) async fn enter(&self, id: &str) -> Option<InUse> {
        let id = SessionId::from(id);
        if !self.manager.has_session(&id).await.unwrap_or(false) {
            return None;
        }
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let own = uses.entry(id.clone()).or_insert(Use { open: 0, last: Instant::now() });
        own.open += 1;
        Some(InUse { sessions: self.clone(), id })
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut uses = self.sessions.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = uses.get_mut(&self.id) {
            *used = Use { open: used.open.saturating_sub(1), last: Instant::now() };
        }
    }
}
