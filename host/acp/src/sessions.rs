//! The conversations of one editor, within limits: of the loaded ones, the one with the longest idle time is
//! unloaded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_client_protocol_schema::v1::{Error, SessionId};

use crate::host::Host;
use crate::message::told;
use crate::session::Session;
use haft_core::sync::Lock;

/// The maximum number of conversations with a loaded program. A further conversation unloads the one with the
/// longest idle time: each has compiled plugins, prepared processes and MCP servers.
pub(crate) const MAX_AWAKE: usize = 8;

/// The maximum number of known conversations, loaded or not: a name and a folder each.
const MAX_KNOWN: usize = 1000;

/// The number of checks for a session to unload, and the wait between them: five seconds in all, in which an
/// editor reads the pending output.
const MAX_LOOKS: u32 = 500;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(crate) struct Sessions {
    /// Ordered by last use, latest at the end.
    all: Lock<Vec<Arc<Session>>>,
    /// The number of places reserved for sessions that are not loaded yet.
    places: Arc<AtomicUsize>,
}

/// A reserved place for a session to be loaded, until this is dropped.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Sessions {
    pub(crate) fn find(&self, id: &SessionId) -> Result<Arc<Session>, Error> {
        let mut all = self.all.lock();
        let Some(at) = all.iter().position(|session| session.id == *id) else {
            let why = "no session with this id is open; load the session or start a new one";
            return Err(told(Error::session_not_found(id.clone()), why));
        };
        let session = all.remove(at);
        all.push(session.clone());
        Ok(session)
    }

    pub(crate) fn add(&self, session: &Arc<Session>) {
        let mut all = self.all.lock();
        if all.len() >= MAX_KNOWN
            && let Some(at) = all.iter().position(|session| !session.is_awake())
        {
            all.remove(at);
        }
        all.push(session.clone());
    }

    pub(crate) fn replace(&self, session: &Arc<Session>) {
        self.all.lock().retain(|other| other.id != session.id);
        self.add(session);
    }

    /// Removes a session, and cancels its work.
    pub(crate) async fn close(&self, id: &SessionId) -> bool {
        let found = {
            let mut all = self.all.lock();
            all.iter().position(|session| session.id == *id).map(|at| all.remove(at))
        };
        let Some(session) = found else { return false };
        session.close().await;
        true
    }

    /// Reserves a place for one more loaded session, or for the session `id`.
    pub(crate) async fn make_room(&self, host: &dyn Host, id: Option<&SessionId>) -> Result<Place, Error> {
        for _ in 0..MAX_LOOKS {
            let idle = {
                let all = self.all.lock();
                let others = || all.iter().filter(|session| session.is_awake() && Some(&session.id) != id);
                if others().count() + self.places.load(Ordering::SeqCst) < MAX_AWAKE {
                    self.places.fetch_add(1, Ordering::SeqCst);
                    return Ok(Place(self.places.clone()));
                }
                others().find(|session| session.can_rest(host)).cloned()
            };
            let Some(idle) = idle else { break };
            if !idle.rest_if_idle().await {
                // A prompt was faster, or output of the session is pending.
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
        }
        let why = format!("{MAX_AWAKE} sessions are active, which is the maximum");
        Err(told(Error::internal_error(), &why))
    }

    pub(crate) fn cancel_all(&self) {
        self.all.lock().iter().for_each(|session| session.cancel());
    }

    pub(crate) async fn close_all(&self) {
        let all = std::mem::take(&mut *self.all.lock());
        let mut closing = tokio::task::JoinSet::new();
        for session in all.into_iter().filter(|session| session.is_awake()) {
            closing.spawn(async move { session.rest().await });
        }
        drop(closing.join_all().await);
    }
}
