//! Sessions of clients (revisions up to 2025-11-25), kept in memory: after a restart clients get 404 and open new ones.
//! Their number is bounded. A new session may replace only one that has been idle for long. Where there are other replicas,
//! the id of a session says where it lives (`home`). An idle session is its client's handler and some small tables: no task
//! and no channel.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use tokio::sync::{Notify, Semaphore};

use super::home::Home;
use super::response::Refusal;
use super::session::{MAX_ALL_KEPT, Session};
use crate::server::handler::Handler;
use crate::server::requester::Agreed;
use haft_core::random;
use haft_core::sync::Lock;

/// How long a session may be left alone: a person comes back from lunch to the same one.
const IDLE: Duration = Duration::from_hours(1);

/// How long a session has to have been left alone to be closed for a new one, where all places are taken.
const ABANDONED: Duration = Duration::from_mins(10);

/// The same bound for a session whose client sent nothing after opening it; clients send something at once.
const UNUSED: Duration = Duration::from_mins(1);

/// How often is looked for what is over.
const SWEEP: Duration = Duration::from_secs(10);

/// The part of all places that a caller may take before its idle sessions give way to those of others.
const SHARE: usize = 8;

/// What is said of a session that is not there.
const MISSING: &str = "there is no such session";

/// The sessions of a server.
pub(super) struct Sessions {
    most: usize,
    /// Where they live, where there are other replicas.
    home: Option<Home>,
    all: Lock<HashMap<Arc<str>, Entry>>,
    /// Told of each that is opened.
    opened: Notify,
    /// Bytes of answers that all of them may keep.
    room: Arc<Semaphore>,
}

/// A session and how it is used.
struct Entry {
    id: Arc<str>,
    session: Arc<Session>,
    /// The caller that opened it; nobody else uses it.
    owner: Arc<str>,
    /// Requests and streams under way.
    open: usize,
    last: Instant,
    /// Whether its client came back after it was opened.
    came_back: bool,
}

/// A session in use. Dropped, it is not.
pub(super) struct SessionGuard {
    sessions: Arc<Sessions>,
    id: Arc<str>,
    session: Arc<Session>,
}

impl Sessions {
    /// At most `most` sessions at once, whose ids say `home` where there is one.
    pub(super) fn new(most: usize, home: Option<Home>) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(MAX_ALL_KEPT));
        Arc::new(Self { most, home, all: Lock::default(), opened: Notify::new(), room })
    }

    /// Opens a session of `owner`, whose requests `handler` answers; its id.
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
            tracing::debug!("the session that was left alone for longest is closed for a new one");
            all.remove(&oldest);
        }
        all.insert(id.clone(), opened);
        drop(all);
        self.opened.notify_one();
        Ok(id)
    }

    /// The session `id` for a request of `caller`.
    ///
    /// # Errors
    /// There is none: another caller opened it, or it lives at another replica.
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
        // Of another caller's as of one that is not there: who else has which sessions is nobody's business.
        let elsewhere = self.home.as_ref().filter(|_| !is_here).and_then(|home| home.refusal(id));
        Err(Refusal::new(StatusCode::NOT_FOUND, elsewhere.unwrap_or_else(|| MISSING.to_owned())))
    }

    /// Ends a session that its client ends.
    pub(super) fn end(&self, session: &SessionGuard) {
        self.all.lock().remove(&session.id);
    }

    /// Ends what is over, until it is dropped.
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

impl Entry {
    /// Whether it may be closed for a new one.
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

#[cfg(test)]
mod tests {
    use rmcp::model::ProtocolVersion;

    use super::*;
    use crate::server::handler::ServerShared;
    use crate::server::{Publisher, ServerInfo, ToolSnapshot};
    use haft_core::tool::{Session as Accompanied, Toolbox};
    use haft_core::trace::Wire;

    fn ago(time: Duration) -> Instant {
        Instant::now().checked_sub(time).unwrap()
    }

    fn handler() -> Handler {
        let snapshot =
            ToolSnapshot::new(Toolbox::default(), Accompanied::default(), ServerInfo::default(), true);
        ServerShared::new(Publisher::new(snapshot).1, "test", Wire::Http).handler()
    }

    fn agreed() -> Agreed {
        Agreed { version: ProtocolVersion::V_2025_11_25, shows_forms: false }
    }

    /// C05: no two sessions take the same place, and only the one that was left gives its place up.
    #[test]
    fn c05_a_full_house_takes_nobody_in_and_turns_nobody_out() {
        let sessions = Sessions::new(2, None);
        let open = || sessions.open("ada".into(), handler(), agreed());
        let (first, second) = (open().unwrap(), open().unwrap());
        assert_eq!(open().unwrap_err().into_response().status(), StatusCode::SERVICE_UNAVAILABLE);
        let is_there = |id: &str| sessions.enter(id, "ada").is_ok();
        assert!(is_there(&first) && is_there(&second) && sessions.enter(&first, "bob").is_err());
        let in_use = sessions.enter(&second, "ada").unwrap();
        sessions.all.lock().values_mut().for_each(|own| own.last = ago(ABANDONED));
        assert!(open().is_ok() && !is_there(&first) && is_there(&second));
        sessions.end(&in_use);
        drop(in_use);
        assert!(!is_there(&second) && sessions.all.lock().len() == 1);
    }

    /// A caller that has taken all places gives idle ones to others, and none to itself.
    #[test]
    fn no_caller_takes_all_places() {
        let sessions = Sessions::new(3, None);
        let open = |owner: &str| sessions.open(owner.into(), handler(), agreed());
        let taken: Vec<_> = (0..3).map(|_| open("ada").unwrap()).collect();
        assert!(open("ada").is_err() && open("bob").is_ok());
        let left = taken.iter().filter(|id| sessions.enter(id, "ada").is_ok()).count();
        assert_eq!((left, sessions.all.lock().len()), (2, 3));
        assert!(open("eve").is_ok(), "ada still has more than her share");
        assert!(open("dan").is_err(), "nobody has");
    }

    /// C05: a client that is being served keeps its session.
    #[test]
    fn c05_only_a_session_that_was_left_gives_way() {
        let long = ago(ABANDONED + UNUSED);
        for (gives_way, last, came_back, open) in [
            (true, long, true, 0),
            (true, ago(UNUSED), false, 0),
            (false, ago(UNUSED), true, 0),
            (false, long, false, 1),
            (false, Instant::now(), false, 0),
        ] {
            let room = Arc::new(Semaphore::new(0));
            let session = Arc::new(Session::new(handler(), agreed(), room));
            let (id, owner) = ("id".into(), "ada".into());
            let own = Entry { id, session, owner, open, last, came_back };
            assert_eq!(own.gives_way(), gives_way);
        }
    }

    /// C05: a session ends when nobody has used it for long, and not before.
    #[test]
    fn c05_a_session_that_nobody_uses_ends() {
        let sessions = Sessions::new(2, None);
        let [left, used] = [(); 2].map(|()| sessions.open("ada".into(), handler(), agreed()).unwrap());
        sessions.sweep();
        assert_eq!(sessions.all.lock().len(), 2);
        let _used = sessions.enter(&used, "ada").unwrap();
        sessions.all.lock().values_mut().for_each(|own| own.last = ago(IDLE));
        sessions.sweep();
        assert!(sessions.enter(&left, "ada").is_err() && sessions.enter(&used, "ada").is_ok());
    }
}
