//! `wasi:sockets` of WASI 0.3: neither UDP nor name lookup. Attempts at both are recorded for hints.

use wasmtime::StoreContextMut;
use wasmtime::component::{Accessor, Linker, Resource};
use wasmtime_wasi::p3::bindings::sockets::ip_name_lookup::{ErrorCode, Host, HostWithStore};
use wasmtime_wasi::p3::bindings::sockets::types::{self, IpAddress, IpAddressFamily};
use wasmtime_wasi::sockets::UdpSocket;

use crate::instance::state::GuestState;
use crate::wasi::network::{HasLookup, Lookup};

/// The interface of all sockets; wasmtime-wasi's own implementation but for the function below.
const SOCKETS: &str = "wasi:sockets/types@0.3.0";

/// The function that makes a UDP socket, without which no other function of theirs can be called.
const CREATE: &str = "[static]udp-socket.create";

/// What a guest gets that makes a UDP socket.
type Created = Result<Resource<UdpSocket>, types::ErrorCode>;

/// Refuses UDP sockets, in the place of the function that is linked.
pub(super) fn refuse_datagrams(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.instance(SOCKETS)?.func_wrap(
        CREATE,
        |mut store: StoreContextMut<'_, GuestState>, _: (IpAddressFamily,)| {
            store.data_mut().denied.datagrams = true;
            Ok((Created::Err(types::ErrorCode::AccessDenied),))
        },
    )
}

impl Host for Lookup<'_> {}

impl HostWithStore<GuestState> for HasLookup {
    async fn resolve_addresses(
        store: &Accessor<GuestState, Self>,
        _: String,
    ) -> wasmtime::Result<Result<Vec<IpAddress>, ErrorCode>> {
        store.with(|mut access| access.data_mut().denied.names = true);
        Ok(Err(ErrorCode::PermanentResolverFailure))
    }
}
