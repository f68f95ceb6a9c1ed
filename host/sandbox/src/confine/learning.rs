//! What the children of a confiner needed: for a proposal of rights.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::egress::{Connection, Record};
use super::refusal::Refusal;
use super::session::HelperSession;
use haft_core::sync::Lock;

/// The refusals and connections of children whose needs are learnt. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Observed(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_public: bool,
    children: Lock<Vec<Child>>,
}

/// The limited records of one child.
type Child = (Arc<Lock<Vec<Refusal>>>, Arc<Record>);

impl Observed {
    /// Creates an empty record. If `is_public`, every public host is open to the children; addresses of this machine, of
    /// private networks and of clouds' metadata services are not.
    pub fn new(is_public: bool) -> Self {
        Self(Arc::new(Inner { is_public, children: Lock::default() }))
    }

    pub(super) fn is_public(&self) -> bool {
        self.0.is_public
    }

    pub(super) fn take_in(&self, session: &HelperSession) {
        self.0.children.lock().push((session.records.refused.clone(), session.records.learnt.clone()));
    }

    /// Returns the refusals so far, each once.
    pub fn refused(&self) -> Vec<Refusal> {
        let mut all: Vec<Refusal> = Vec::new();
        for (refused, _) in self.0.children.lock().iter() {
            all.extend(refused.lock().iter().cloned());
        }
        let mut seen = BTreeSet::new();
        all.retain(|refusal| seen.insert(refusal.clone()));
        all
    }

    /// Returns the connections so far, of one child after the other.
    pub fn connections(&self) -> Vec<Connection> {
        self.0.children.lock().iter().flat_map(|(_, learnt)| learnt.list()).collect()
    }
}
