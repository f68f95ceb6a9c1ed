//! Remembers, within this process, the models for which a server rejected a schema. The schema is not sent to them
//! again.

use std::collections::BTreeSet;

use haft_core::sync::Lock;

/// The names of models; a process uses a handful.
#[derive(Debug, Default)]
pub(super) struct Refusing(Lock<BTreeSet<String>>);

impl Refusing {
    pub(super) fn has(&self, model: &str) -> bool {
        self.0.lock().contains(model)
    }

    pub(super) fn note(&self, model: &str) {
        self.0.lock().insert(model.to_owned());
    }
}
