//! What is left of a handler while its session rests: nearly all of it lies in the table of sessions itself.

use std::sync::Weak;

use rmcp::model::LoggingLevel;

use super::{Handler, ServerShared};
use crate::server::snapshot::ToolSnapshot;
use crate::server::tool_news::ToolNews;
use haft_core::sync::Lock;
use haft_core::tool::{Approvals, Client};

/// A handler without what it only needs while its client is there.
#[derive(Debug)]
pub(in crate::server) struct RestingHandler {
    shared: ServerShared,
    level: LoggingLevel,
    client: Client,
    seen: Option<Weak<ToolSnapshot>>,
    /// Where a person has allowed something.
    approvals: Option<Approvals>,
}

impl RestingHandler {
    /// What is left of `handler`, which no call is under way in.
    pub(in crate::server) fn of(handler: &Handler) -> Self {
        let approvals = handler.approvals.have_allowed().then(|| handler.approvals.clone());
        let (shared, level) = (handler.shared.clone(), *handler.level.lock());
        Self { shared, level, client: handler.client, seen: handler.news.seen(), approvals }
    }

    /// The handler of the same client.
    pub(in crate::server) fn wake(self) -> Handler {
        Handler {
            level: Lock::new(self.level),
            news: ToolNews::since(self.seen),
            approvals: self.approvals.unwrap_or_default(),
            ..Handler::new(self.shared, self.client)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Publisher, ServerInfo};
    use haft_core::tool::{Session, Toolbox};

    /// C05: what a person has allowed, and what the client has set, is so afterwards; nobody else's calls become its own.
    #[test]
    fn c05_a_client_is_the_same_after_a_rest() {
        let snapshot = ToolSnapshot::new(Toolbox::default(), Session::default(), ServerInfo::default(), true);
        let (_publisher, snapshots) = Publisher::new(snapshot);
        let shared = ServerShared::new(snapshots, "test");
        let (handler, other) = (shared.handler(), shared.handler());
        *handler.level.lock() = LoggingLevel::Error;
        handler.approvals.allow("read".parse().unwrap());
        let before = [handler.client, other.client];
        let [woken, other] = [handler, other].map(|handler| RestingHandler::of(&handler).wake());
        assert_eq!(*woken.level.lock(), LoggingLevel::Error);
        assert_eq!([woken.approvals.have_allowed(), other.approvals.have_allowed()], [true, false]);
        assert_eq!([woken.client, other.client], before);
        assert_ne!(woken.client, other.client);
    }
}
