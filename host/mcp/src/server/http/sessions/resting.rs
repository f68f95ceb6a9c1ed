//! Sessions that rest: rmcp has let go of them, and opens them again when it has to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rmcp::transport::streamable_http_server::session::{
    SessionId, SessionState, SessionStore, SessionStoreError,
};

use super::Sessions;
use super::session_use::SessionUse;

/// How long rmcp has a session after its last message: longer than answers can be asked for again, and than that
/// once more where a call ended that nobody waited for.
const READY: Duration = Duration::from_secs(45);

/// How often is looked for sessions that may rest.
const SWEEP: Duration = Duration::from_secs(10);

/// How long rmcp may take to hear that a session rests: it is idle, and hears at once.
const CLOSING: Duration = Duration::from_secs(1);

impl Sessions {
    /// Has sessions rest that nobody uses, for ever.
    pub(in super::super) async fn tidy(self: Arc<Self>) {
        loop {
            let opened = self.opened.notified();
            let is_empty = self.uses().is_empty();
            if is_empty {
                opened.await;
            }
            tokio::time::sleep(SWEEP).await;
            self.sweep(READY).await;
        }
    }

    /// Has every session rest of which rmcp had no message for `ready`; how many.
    pub(in super::super) async fn sweep(&self, ready: Duration) -> usize {
        let quiet: Vec<SessionId> = {
            let mut uses = self.uses();
            uses.retain(|_, used| !used.is_over());
            // What a call answers is kept for a while after it, whoever waits for it.
            let busy =
                |used: &&mut SessionUse| used.handler.as_ref().is_some_and(|handler| handler.is_busy());
            uses.values_mut().filter(busy).for_each(|used| used.kept = Instant::now());
            uses.iter().filter(|(_, used)| used.may_rest(ready)).map(|(id, _)| id.clone()).collect()
        };
        let mut rested = 0;
        for id in quiet {
            rested += usize::from(self.rest(&id, ready).await);
        }
        rested
    }

    /// Has rmcp let go of a session, if it is still quiet; whether it was.
    async fn rest(&self, id: &SessionId, ready: Duration) -> bool {
        let handle = {
            let mut sessions = self.manager.sessions.write().await;
            let mut uses = self.uses();
            let Some(own) = uses.get_mut(id).filter(|own| own.may_rest(ready)) else { return false };
            let Some(handle) = sessions.remove(id) else { return false };
            own.is_awake = false;
            own.rests += 1;
            own.handler.iter().for_each(|handler| handler.rest());
            handle
        };
        // One that is over already needs no end, and one that takes none is dropped with its handle.
        let _ = tokio::time::timeout(CLOSING, handle.close()).await;
        true
    }

    /// Whether rmcp says that a session is over that only rests. It is told once of each rest.
    pub(super) fn has_only_gone_to_rest(&self, id: &SessionId) -> bool {
        let mut uses = self.uses();
        let Some(own) = uses.get_mut(id).filter(|own| own.rests > 0) else { return false };
        own.rests -= 1;
        true
    }
}

/// Where rmcp finds how a session was opened that rests.
#[async_trait]
impl SessionStore for Sessions {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let opening = self.uses().get(id).and_then(|used| used.opening.as_ref()?.params());
        Ok(opening.map(SessionState::new))
    }

    async fn store(&self, _: &str, _: &SessionState) -> Result<(), SessionStoreError> {
        Ok(())
    }

    async fn delete(&self, _: &str) -> Result<(), SessionStoreError> {
        Ok(())
    }
}

#[cfg(test)]
impl Sessions {
    /// How many sessions rmcp has, and how many there are.
    pub(in super::super) async fn counts(&self) -> (usize, usize) {
        let awake = self.manager.sessions.read().await.len();
        (awake, self.uses().len())
    }

    /// Waits until rmcp has let go of every session that rests.
    pub(in super::super) async fn all_rest(&self) {
        while self.uses().values().any(|used| used.rests > 0) {
            tokio::task::yield_now().await;
        }
    }
}
