//! The trait of a capability: a set of imports, restricted to the grant of the guest. Each capability has one file
//! with its data, its interfaces, which are implemented for a [`View`] of a guest's store, and its [`Capability`].
//! `instance/state.rs` lists the capabilities. A capability knows neither other capabilities nor the store.

use std::marker::PhantomData;
use std::sync::Arc;

use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiView};
use wasmtime_wasi_http::WasiHttpView;

use crate::call::{ActiveCall, Call};
use crate::denials::denied_access::{DeniedAccess, NetworkDecisions};
use crate::options::Belongings;
use crate::threads::OwnThreads;
use crate::wasi::files::protected::ProtectedPaths;
use crate::wasi::http::client::Connector;
use haft_core::limit::Limits;

/// Maximum number of a guest's open files, streams and pollables. A tool needs a few dozen; each open file is a
/// file descriptor of haft.
pub(crate) const MAX_RESOURCES: usize = 1000;

pub(crate) trait Capability: Sized + Send + 'static {
    fn new(guest: &NewGuest<'_>) -> Self;

    /// Links the interfaces except those of [`has_later`](Self::has_later).
    fn link<S: HasCapability<Self>>(_: &mut Linker<S>) -> wasmtime::Result<()> {
        Ok(())
    }

    /// Returns whether few components import the interface, which is linked only for these.
    fn has_later(_: &str) -> bool {
        false
    }

    /// Links these.
    fn link_later<S: HasCapability<Self>>(_: &mut Linker<S>) -> wasmtime::Result<()> {
        Ok(())
    }

    /// Configures wasmtime's own part of the capability.
    fn configure(&self, _: &mut WasiCtxBuilder, _: &Call) {}

    fn begin(&mut self, _: &ActiveCall) {}

    /// Ends a call; the guest may serve another call.
    fn renew(&mut self, _: &Limits) {}
}

pub(crate) trait HasCapability<C>: WasiView + WasiHttpView + Send + 'static {
    fn view(&mut self) -> View<'_, C>;
}

pub(crate) struct View<'a, C> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) own: &'a mut C,
}

/// The type under which wasmtime finds [`View`] in a store.
pub(crate) struct Has<C>(PhantomData<C>);

impl<C: Send + 'static> HasData for Has<C> {
    type Data<'a> = View<'a, C>;
}

/// The data that the capabilities of a guest share.
pub(crate) struct Shared {
    pub(crate) wasi: WasiCtx,
    pub(crate) table: ResourceTable,
    pub(crate) call: ActiveCall,
    pub(crate) denied: DeniedAccess,
    pub(crate) decisions: NetworkDecisions,
    /// Whether the guest knows the path of its workspace. Its library keeps it as long as the instance lives.
    pub(crate) is_location_known: bool,
}

pub(crate) struct NewGuest<'a> {
    pub(crate) call: &'a Arc<Call>,
    pub(crate) belongings: &'a Belongings,
    /// Whether the guest can ask haft for the path of its workspace.
    pub(crate) can_ask: bool,
    /// The threads of haft for work that the guest's thread may not do.
    pub(crate) own_threads: OwnThreads,
    pub(crate) connector: &'a Arc<Connector>,
    pub(crate) protected_paths: Arc<ProtectedPaths>,
    pub(crate) decisions: NetworkDecisions,
}
