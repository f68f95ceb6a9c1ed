//! The data of a guest's store: the data of each capability, their shared data, and limits.

use std::sync::Arc;

use wasmtime::component::{Linker, ResourceTable};
use wasmtime::{ResourceLimiter, StoreLimits, StoreLimitsBuilder};
use wasmtime_wasi::{WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use crate::call::{ActiveCall, Call};
use crate::contract::act::consent::Consent;
use crate::contract::haft_host::HostFunctions;
use crate::denials::denied_access::DeniedAccess;
use crate::threads::turns::Turn;
use crate::wasi::capability::{Capability, HasCapability, MAX_RESOURCES, NewGuest, Shared, View};
use crate::wasi::config::Configuration;
use crate::wasi::environment::Environment;
use crate::wasi::files::FileState;
use crate::wasi::http::Http;
use crate::wasi::keyvalue::KeyValues;
use crate::wasi::network::Sockets;
use crate::wasi::stdio::Stdio;
use haft_core::limit::Limits;

/// Handles of resources, streams, futures and tasks that a guest may own; see also [`MAX_RESOURCES`].
pub(crate) const MAX_HANDLES: usize = 10_000;

/// Maximum number of entries of a guest's tables, all together: function pointers, of which CPython has 20,000.
pub(crate) const MAX_TABLE_ELEMENTS: usize = 1_000_000;

/// Maximum number of core instances of a component: a Rust component has 4, one with an interpreter some 30.
const MAX_INSTANCES: usize = 256;

/// Tables and memories of a component.
const MAX_TABLES: usize = 256;

/// Defines the store's data by a list of capabilities.
macro_rules! capabilities {
    ($($name:ident: $capability:ty,)*) => {
        pub(crate) struct GuestState {
            pub(crate) shared: Shared,
            pub(crate) budget: Budget,
            pub(crate) turn: Turn,
            $(pub(crate) $name: $capability,)*
        }

        impl GuestState {
            pub(crate) fn new(guest: &NewGuest<'_>, turn: Turn) -> Self {
                $(let mut $name = <$capability>::new(guest);)*
                let mut wasi = WasiCtxBuilder::new();
                $($name.configure(&mut wasi, guest.call);)*
                let shared = shared(wasi, guest);
                $($name.begin(&shared.call);)*
                Self { shared, budget: Budget::new(&guest.call.limits), turn, $($name,)* }
            }

            pub(crate) fn begin(&mut self, call: Arc<Call>) {
                self.shared.call = ActiveCall::new(call);
                $(self.$name.begin(&self.shared.call);)*
            }

            /// Removes the data of the ended call: its denials, output, events and writable directories. The
            /// guest's memory and open resources stay.
            pub(crate) fn renew(&mut self) {
                let Call { plugin, grant, limits, .. } = &*self.shared.call;
                let limits = *limits;
                self.shared.call = ActiveCall::new(Arc::new(Call::none(plugin, grant, &limits)));
                self.shared.denied = self.shared.denied.kept_for_next_call();
                self.shared.decisions.clear();
                self.turn.renew();
                $(self.$name.renew(&limits);)*
            }
        }

        /// Links all imports of components except those of [`link_later`].
        pub(crate) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
            $(<$capability>::link(linker)?;)*
            Ok(())
        }

        pub(crate) fn has_later(interface: &str) -> bool {
            [$(<$capability>::has_later(interface)),*].contains(&true)
        }

        /// Links these beside all others.
        pub(crate) fn link_later(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
            linker.allow_shadowing(true);
            $(<$capability>::link_later(linker)?;)*
            Ok(())
        }

        $(impl HasCapability<$capability> for GuestState {
            fn view(&mut self) -> View<'_, $capability> {
                View { shared: &mut self.shared, own: &mut self.$name }
            }
        })*
    };
}

// Ordered: of two that link an interface of WASI 0.3 the later one counts, and `Environment` links some that other
// capabilities have.
capabilities! {
    environment: Environment,
    stdio: Stdio,
    sockets: Sockets,
    files: FileState,
    http: Http,
    host: HostFunctions,
    config: Configuration,
    keyvalue: KeyValues,
    consent: Consent,
}

fn shared(mut wasi: WasiCtxBuilder, guest: &NewGuest<'_>) -> Shared {
    let mut table = ResourceTable::new();
    table.set_max_capacity(MAX_RESOURCES);
    Shared {
        wasi: wasi.build(),
        table,
        call: ActiveCall::new(guest.call.clone()),
        denied: DeniedAccess::default(),
        decisions: guest.decisions.clone(),
        is_location_known: false,
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.shared.wasi, table: &mut self.shared.table }
    }
}

impl WasiHttpView for GuestState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.http.context(&mut self.shared.table)
    }
}

pub(crate) struct Budget {
    memory: usize,
    used: usize,
    rest: StoreLimits,
    /// The limit that a growth was refused for.
    pub(crate) exceeded: Option<ExceededLimit>,
}

/// A limit of [`Budget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExceededLimit {
    Memory,
    Tables,
}

impl Budget {
    fn new(limits: &Limits) -> Self {
        let rest = StoreLimitsBuilder::new()
            .table_elements(MAX_TABLE_ELEMENTS)
            .instances(MAX_INSTANCES)
            .tables(MAX_TABLES)
            .memories(MAX_TABLES)
            .build();
        let memory = usize::try_from(limits.memory).unwrap_or(usize::MAX);
        Self { memory, used: 0, rest, exceeded: None }
    }

    /// Returns the number of bytes of all memories together, which is also the most there was: none ever shrinks.
    pub(crate) fn used(&self) -> u64 {
        self.used as u64
    }
}

impl ResourceLimiter for Budget {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        // wasmtime reports one memory at a time; the limit is for their total.
        let used = self.used - current.min(self.used) + desired;
        if used > self.memory {
            self.exceeded = Some(ExceededLimit::Memory);
            return Ok(false);
        }
        self.used = used;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let allowed = self.rest.table_growing(current, desired, maximum)?;
        if !allowed {
            self.exceeded = Some(ExceededLimit::Tables);
        }
        Ok(allowed)
    }

    fn instances(&self) -> usize {
        self.rest.instances()
    }

    fn tables(&self) -> usize {
        self.rest.tables()
    }

    fn memories(&self) -> usize {
        self.rest.memories()
    }
}
