//! The code of a plugin for prewarmed instances. Those of a large memory have an engine of their own, whose pool holds what
//! they ever used until it is dropped. So it is there while the plugin is called, and is loaded once more when it is called
//! again.

use std::sync::Arc;

use crate::contract::linked::LinkedComponent;
use crate::engine::EngineAndImports;
use haft_core::sync::Lock;

/// The code for prewarmed instances; clones share it.
#[derive(Clone, Default)]
pub(super) struct PrewarmCode(Arc<Lock<Option<PrewarmComponent>>>);

/// What prewarmed instances are made of: the component that calls have, or one for them alone, in an engine that is there
/// while such a component is.
#[derive(Clone, Default)]
pub(crate) struct PrewarmComponent {
    pub(super) separate: Option<(LinkedComponent, Arc<EngineAndImports>)>,
}

impl PrewarmComponent {
    /// The component, where it is not the one that calls have.
    pub(crate) fn separate(&self) -> Option<&LinkedComponent> {
        self.separate.as_ref().map(|(linked, _)| linked)
    }
}

impl PrewarmCode {
    /// The component, if it is loaded; waits for nobody who loads it.
    pub(super) fn get(&self) -> Option<PrewarmComponent> {
        self.0.try_lock()?.clone()
    }

    /// Loads it, unless it is loaded; another thread that does so meanwhile waits.
    pub(super) fn load(&self, load: impl FnOnce() -> PrewarmComponent) {
        self.0.lock().get_or_insert_with(load);
    }

    /// Forgets it, and with the last of its engine all the memory that its instances ever used. What is to be dropped, which
    /// is slow.
    pub(super) fn release(&self) -> impl Sized + Send + 'static {
        let mut loaded = self.0.lock();
        loaded.take_if(|loaded| loaded.separate.is_some())
    }
}
