//! Data that travels with a call and is opaque to the protocol: the caller, and the trace context. It gives no
//! right.

use std::collections::BTreeMap;

use haft_core::tool::{Context, Session};
use serde::{Deserialize, Serialize};

/// The maximum size of the data in bytes: names and a trace context have some hundred.
pub(crate) const MAX_ABOUT: usize = 4096;

/// The data that travels with a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The caller, as known to the gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Other data, such as `traceparent`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl About {
    /// Whether the size is within the limit.
    pub(crate) fn fits(&self) -> bool {
        let metadata = self.metadata.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        metadata + self.caller.as_ref().map_or(0, String::len) <= MAX_ABOUT
    }
}

/// Adds data to a call at the gate, and applies it at the worker.
pub trait Passenger: Send + Sync {
    /// Returns the data for an outgoing call.
    fn outgoing(&self, context: &Context<'_>) -> About;

    /// Returns the session for an incoming call.
    fn incoming(&self, session: Session, about: About) -> Session;
}
