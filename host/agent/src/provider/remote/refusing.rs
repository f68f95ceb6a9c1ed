//! Models that a server refused something for that it may go without (the form of the answer, files), as far as this
//! process has seen. It is not sent to them again.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Names of models. A process asks a handful.
#[derive(Debug, Default)]
pub(super) struct Refusing(Mutex<BTreeSet<String>>);

impl Refusing {
    pub(super) fn has(&self, model: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(model)
    }

    pub(super) fn note(&self, model: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_owned());
    }
}
