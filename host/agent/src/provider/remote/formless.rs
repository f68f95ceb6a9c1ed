//! Models that a server refused to give an answer of a form, as far as this process has seen: they are told of it in
//! the prompt alone.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Names of models. A process asks a handful.
#[derive(Debug, Default)]
pub(super) struct Formless(Mutex<BTreeSet<String>>);

impl Formless {
    pub(super) fn has(&self, model: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(model)
    }

    pub(super) fn note(&self, model: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_owned());
    }
}
