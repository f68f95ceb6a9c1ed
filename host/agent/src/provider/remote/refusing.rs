//! Models that a server refused a form of the answer for, as far as this process has seen. It is not sent to them again.

use std::collections::BTreeSet;

use haft_core::sync::Lock;

/// Names of models. A process asks a handful.
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
