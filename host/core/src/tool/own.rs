//! What a process of haft's own is handed, started for itself and not for a call. Gives no rights.

use tokio_util::sync::CancellationToken;

use super::{Caller, Client, Context, Notes, Session, Whole};
use crate::event::Events;
use crate::grant::Grant;
use crate::limit::Limits;

/// The default limits, without listeners, cancellation or a journal.
#[derive(Debug, Default)]
pub struct Own {
    limits: Limits,
    events: Events,
    cancel: CancellationToken,
    notes: Notes,
    whole: Whole,
    session: Session,
}

impl Own {
    /// With these rights.
    pub fn context<'a>(&'a self, grant: &'a Grant) -> Context<'a> {
        let Self { limits, events, cancel, notes, whole, session } = self;
        let (client, caller, approved) = (Client::default(), Caller::new(session), false);
        Context { grant, limits, events, cancel, notes, whole, client, caller, approved }
    }
}
