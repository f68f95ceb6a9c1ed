//! `wasi:sockets` as guests see it: TCP connections to granted addresses (`address_check`), and neither UDP nor name
//! lookup. Attempts at the latter two are recorded for hints.

pub(crate) mod address_check;

use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::{
    Host, HostResolveAddressStream, ResolveAddressStream,
};
use wasmtime_wasi::p2::bindings::sockets::network::{
    self, ErrorCode, HostNetwork, IpAddress, IpAddressFamily, Network,
};
use wasmtime_wasi::p2::bindings::sockets::udp_create_socket::{self, UdpSocket};
use wasmtime_wasi::p2::{DynPollable, SocketError};
use wasmtime_wasi::sockets::WasiSocketsCtxView;

use crate::denials::denied_access::DeniedAccess;
use crate::instance::state::GuestState;

/// The type under which wasmtime finds [`Lookup`] in a store.
pub(crate) struct HasLookup;

/// A guest's view of what it is always refused: names and datagrams.
pub(crate) struct Lookup<'a> {
    inner: WasiSocketsCtxView<'a>,
    denied: &'a mut DeniedAccess,
}

impl HasData for HasLookup {
    type Data<'a> = Lookup<'a>;
}

/// The view of one store.
pub(crate) fn view(state: &mut GuestState) -> Lookup<'_> {
    let inner = WasiSocketsCtxView { ctx: state.wasi.sockets(), table: &mut state.table };
    Lookup { inner, denied: &mut state.denied }
}

impl network::Host for Lookup<'_> {
    fn convert_error_code(&mut self, error: SocketError) -> wasmtime::Result<ErrorCode> {
        self.inner.convert_error_code(error)
    }

    fn network_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        self.inner.network_error_code(error)
    }
}

impl HostNetwork for Lookup<'_> {
    fn drop(&mut self, network: Resource<Network>) -> wasmtime::Result<()> {
        HostNetwork::drop(&mut self.inner, network)
    }
}

impl Host for Lookup<'_> {
    fn resolve_addresses(
        &mut self,
        network: Resource<Network>,
        name: String,
    ) -> Result<Resource<ResolveAddressStream>, SocketError> {
        self.denied.names = true;
        self.inner.resolve_addresses(network, name)
    }
}

impl udp_create_socket::Host for Lookup<'_> {
    async fn create_udp_socket(
        &mut self,
        family: IpAddressFamily,
    ) -> Result<Resource<UdpSocket>, SocketError> {
        self.denied.datagrams = true;
        self.inner.create_udp_socket(family).await
    }
}

impl HostResolveAddressStream for Lookup<'_> {
    fn resolve_next_address(
        &mut self,
        stream: Resource<ResolveAddressStream>,
    ) -> Result<Option<IpAddress>, SocketError> {
        self.inner.resolve_next_address(stream)
    }

    fn subscribe(
        &mut self,
        stream: Resource<ResolveAddressStream>,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        self.inner.subscribe(stream)
    }

    fn drop(&mut self, stream: Resource<ResolveAddressStream>) -> wasmtime::Result<()> {
        HostResolveAddressStream::drop(&mut self.inner, stream)
    }
}
