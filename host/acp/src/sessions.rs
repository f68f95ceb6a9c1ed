//! The conversations of one editor, within bounds: of those that are awake the one that was idle for longest gives way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_client_protocol_schema::v1::{Error, SessionId};

use crate::bounds::{MAX_AWAKE, MAX_KNOWN};
use crate::host::Host;
use crate::message::told;
use crate::session::Session;
use haft_core::sync::Lock;

/// How often a session is looked for that can give way, and how long it is until the next look: five seconds in all, in
/// which an editor that reads has read what it is shown.
const MAX_LOOKS: u32 = 500;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// All that are known.
#[derive(Default)]
pub(crate) struct Sessions {
    /// The one that was used last stands at the end.
    all: Lock<Vec<Arc<Session>>>,
    /// Places that were made for sessions which are not awake yet.
    places: Arc<AtomicUsize>,
}

/// A place for a session that is about to be awake, until this is dropped.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Sessions {
    /// The one with this id.
    pub(crate) fn find(&self, id: &SessionId) -> Result<Arc<Session>, Error> {
        let mut all = self.all.lock();
        let Some(at) = all.iter().position(|session| session.id == *id) else {
            let why = "no session of this id is open: load it, or begin a new one";
            return Err(told(Error::session_not_found(id.clone()), why));
        };
        let session = all.remove(at);
        all.push(session.clone());
        Ok(session)
    }

    /// Adds one.
    pub(crate) fn add(&self, session: &Arc<Session>) {
        let mut all = self.all.lock();
        if all.len() >= MAX_KNOWN
            && let Some(at) = all.iter().position(|session| !session.is_awake())
        {
            all.remove(at);
        }
        all.push(session.clone());
    }

    /// Adds one in the place of the one with its id.
    pub(crate) fn replace(&self, session: &Arc<Session>) {
        self.all.lock().retain(|one| one.id != session.id);
        self.add(session);
    }

    /// Forgets one, and stops what it does.
    pub(crate) async fn close(&self, id: &SessionId) -> bool {
        let found = {
            let mut all = self.all.lock();
            all.iter().position(|session| session.id == *id).map(|at| all.remove(at))
        };
        let Some(session) = found else { return false };
        session.close().await;
        true
    }

    /// Makes room for one more that is awake, or for `own`.
    pub(crate) async fn make_room(&self, host: &dyn Host, own: Option<&SessionId>) -> Result<Place, Error> {
        for _ in 0..MAX_LOOKS {
            let idle = {
                let all = self.all.lock();
                let others = || all.iter().filter(|session| session.is_awake() && Some(&session.id) != own);
                if others().count() + self.places.load(Ordering::SeqCst) < MAX_AWAKE {
                    self.places.fetch_add(1, Ordering::SeqCst);
                    return Ok(Place(self.places.clone()));
                }
                others().find(|session| session.can_rest(host)).cloned()
            };
            let Some(idle) = idle else { break };
            if !idle.rest_if_idle().await {
                // A prompt came first, or the editor is still being shown what was said in it.
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
        }
        let why = format!("{MAX_AWAKE} sessions are at work, and no more may be at the same time");
        Err(told(Error::internal_error(), &why))
    }

    /// Stops all that is being done.
    pub(crate) fn cancel_all(&self) {
        self.all.lock().iter().for_each(|session| session.cancel());
    }

    /// Ends all.
    pub(crate) async fn close_all(&self) {
        let all = std::mem::take(&mut *self.all.lock());
        let mut closing = tokio::task::JoinSet::new();
        for session in all.into_iter().filter(|session| session.is_awake()) {
            closing.spawn(async move { session.rest().await });
        }
        drop(closing.join_all().await);
    }
}
