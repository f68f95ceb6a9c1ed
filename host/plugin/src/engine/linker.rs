//! Everything that components may import. Most know WASI 0.2 and nothing later, so that what few import is linked when the
//! first component asks for it.

use wasmtime::component::{Component, InstancePre, Linker};

use crate::instance::state::{self, GuestState};
use haft_core::sync::TryOnceLock;

/// What components of one engine may import.
pub(super) struct Imports {
    linker: Linker<GuestState>,
    /// With what few components import.
    with_later: TryOnceLock<Linker<GuestState>>,
}

impl Imports {
    pub(super) fn new(engine: &wasmtime::Engine) -> wasmtime::Result<Self> {
        let mut linker = Linker::new(engine);
        state::link(&mut linker)?;
        Ok(Self { linker, with_later: TryOnceLock::new() })
    }

    /// Links a component to everything it imports.
    pub(super) fn link(&self, component: &Component) -> wasmtime::Result<InstancePre<GuestState>> {
        let (imports, engine) = (component.component_type(), component.engine());
        if !imports.imports(engine).any(|(name, _)| state::has_later(name)) {
            return self.linker.instantiate_pre(component);
        }
        let with_later = || {
            let mut linker = self.linker.clone();
            state::link_later(&mut linker)?;
            wasmtime::error::Ok(linker)
        };
        self.with_later.get_or_try_init(with_later)?.instantiate_pre(component)
    }
}
