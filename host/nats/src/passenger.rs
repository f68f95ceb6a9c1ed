//! What travels with a call and means nothing to the protocol: who made it, and what traces tell of it. It gives no right.

use std::collections::BTreeMap;

use haft_core::tool::{Context, Session};
use serde::{Deserialize, Serialize};

/// Bytes of all that travels with a call: names and a trace's context have a few hundred.
pub(crate) const MAX_ABOUT: usize = 4096;

/// What travels with a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Who made the call, as the gate knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// What else is passed on, such as `traceparent`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl About {
    /// Whether it is no longer than may travel.
    pub(crate) fn fits(&self) -> bool {
        let metadata = self.metadata.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        metadata + self.caller.as_ref().map_or(0, String::len) <= MAX_ABOUT
    }
}

/// Puts into a call what travels with it, at the gate, and takes it out again, at the worker.
pub trait Passenger: Send + Sync {
    /// What travels with the call that is being made.
    fn outgoing(&self, context: &Context<'_>) -> About;

    /// What the call's session is on the other machine.
    fn incoming(&self, session: Session, about: About) -> Session;
}
