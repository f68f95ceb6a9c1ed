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

/// What prewarmed instances are made of.
#[derive(Clone)]
pub(crate) enum PrewarmComponent {
    /// The component that calls have.
    OfCalls,
    /// One for them alone.
    Separate(Arc<SeparateComponent>),
}

/// A component in an engine that is there while such a component is.
pub(crate) struct SeparateComponent {
    linked: LinkedComponent,
    _engine: Arc<EngineAndImports>,
}

impl SeparateComponent {
    pub(super) fn new(linked: LinkedComponent, engine: Arc<EngineAndImports>) -> Self {
        Self { linked, _engine: engine }
    }
}

impl PrewarmComponent {
    /// The component, where it is not the one that calls have.
    pub(crate) fn separate(&self) -> Option<&LinkedComponent> {
        match self {
            Self::OfCalls => None,
            Self::Separate(separate) => Some(&separate.linked),
        }
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
        loaded.take_if(|loaded| matches!(loaded, PrewarmComponent::Separate(_)))
    }
}
