//! `wasi:sockets`: TCP connections to granted addresses, and neither UDP nor name lookup. Attempts at the
//! latter two are recorded for hints.

use std::net::SocketAddr;
use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::{Accessor, Linker, Resource};
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::{
    self, Host, HostResolveAddressStream, ResolveAddressStream,
};
use wasmtime_wasi::p2::bindings::sockets::network::{
    self, ErrorCode, HostNetwork, IpAddress, IpAddressFamily, LinkOptions, Network,
};
use wasmtime_wasi::p2::bindings::sockets::udp_create_socket::{self, UdpSocket};
use wasmtime_wasi::p2::bindings::sockets::{instance_network, tcp, tcp_create_socket, udp};
use wasmtime_wasi::p2::{DynPollable, SocketError};
use wasmtime_wasi::p3::bindings::sockets as later;
use wasmtime_wasi::sockets::{SocketAddrUse, WasiSockets, WasiSocketsCtxView, WasiSocketsView};
use wasmtime_wasi::{WasiCtxBuilder, p3};

use crate::call::Call;
use crate::denials::denied_access::NetworkDecisions;
use crate::wasi::capability::{Capability, Has, HasCapability, NewGuest, View};
use haft_core::grant::Grant;

type Created = Result<Resource<wasmtime_wasi::sockets::UdpSocket>, later::types::ErrorCode>;

/// A guest's connections, and the decisions about them, which the check adds to.
pub(crate) struct Sockets(NetworkDecisions);

impl Capability for Sockets {
    fn new(guest: &NewGuest<'_>) -> Self {
        Self(guest.decisions.clone())
    }

    /// Links wasmtime's implementation, except names and the creation of UDP sockets.
    fn link<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        tcp::add_to_linker::<_, WasiSockets>(linker, S::sockets)?;
        tcp_create_socket::add_to_linker::<_, WasiSockets>(linker, S::sockets)?;
        udp::add_to_linker::<_, WasiSockets>(linker, S::sockets)?;
        instance_network::add_to_linker::<_, WasiSockets>(linker, S::sockets)?;
        network::add_to_linker::<_, WasiSockets>(linker, &LinkOptions::default(), S::sockets)?;
        udp_create_socket::add_to_linker::<S, Has<Self>>(linker, S::view)?;
        ip_name_lookup::add_to_linker::<S, Has<Self>>(linker, S::view)
    }

    fn link_later<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        p3::sockets::add_to_linker(linker)?;
        later::ip_name_lookup::add_to_linker::<S, Has<Self>>(linker, S::view)?;
        // Without this function none of the others for UDP can be called.
        linker.instance("wasi:sockets/types@0.3.0")?.func_wrap(
            "[static]udp-socket.create",
            |mut store: StoreContextMut<'_, S>, _: (later::types::IpAddressFamily,)| {
                store.data_mut().view().shared.denied.datagrams = true;
                Ok((Created::Err(later::types::ErrorCode::AccessDenied),))
            },
        )
    }

    fn configure(&self, wasi: &mut WasiCtxBuilder, call: &Call) {
        allow_granted(wasi, &call.grant, &self.0);
    }
}

impl View<'_, Sockets> {
    fn inner(&mut self) -> WasiSocketsCtxView<'_> {
        WasiSocketsCtxView { ctx: self.shared.wasi.sockets(), table: &mut self.shared.table }
    }
}

impl network::Host for View<'_, Sockets> {
    fn convert_error_code(&mut self, error: SocketError) -> wasmtime::Result<ErrorCode> {
        self.inner().convert_error_code(error)
    }

    fn network_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        self.inner().network_error_code(error)
    }
}

impl HostNetwork for View<'_, Sockets> {
    fn drop(&mut self, network: Resource<Network>) -> wasmtime::Result<()> {
        HostNetwork::drop(&mut self.inner(), network)
    }
}

impl Host for View<'_, Sockets> {
    fn resolve_addresses(
        &mut self,
        network: Resource<Network>,
        name: String,
    ) -> Result<Resource<ResolveAddressStream>, SocketError> {
        self.shared.denied.names = true;
        self.inner().resolve_addresses(network, name)
    }
}

impl HostResolveAddressStream for View<'_, Sockets> {
    fn resolve_next_address(
        &mut self,
        stream: Resource<ResolveAddressStream>,
    ) -> Result<Option<IpAddress>, SocketError> {
        self.inner().resolve_next_address(stream)
    }

    fn subscribe(
        &mut self,
        stream: Resource<ResolveAddressStream>,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        self.inner().subscribe(stream)
    }

    fn drop(&mut self, stream: Resource<ResolveAddressStream>) -> wasmtime::Result<()> {
        HostResolveAddressStream::drop(&mut self.inner(), stream)
    }
}

impl udp_create_socket::Host for View<'_, Sockets> {
    async fn create_udp_socket(
        &mut self,
        family: IpAddressFamily,
    ) -> Result<Resource<UdpSocket>, SocketError> {
        self.shared.denied.datagrams = true;
        self.inner().create_udp_socket(family).await
    }
}

impl later::ip_name_lookup::Host for View<'_, Sockets> {}

impl<S: HasCapability<Sockets>> later::ip_name_lookup::HostWithStore<S> for Has<Sockets> {
    async fn resolve_addresses(
        store: &Accessor<S, Self>,
        _: String,
    ) -> wasmtime::Result<Result<Vec<later::types::IpAddress>, later::ip_name_lookup::ErrorCode>> {
        store.with(|mut access| access.get().shared.denied.names = true);
        Ok(Err(later::ip_name_lookup::ErrorCode::PermanentResolverFailure))
    }
}

/// Allows TCP connections to the addresses that the grant names, and records every other attempt: a guest never
/// listens.
fn allow_granted(builder: &mut WasiCtxBuilder, grant: &Arc<Grant>, decisions: &NetworkDecisions) {
    let (grant, decisions) = (grant.clone(), decisions.clone());
    let check = move |address: SocketAddr, usage: SocketAddrUse| {
        // The local end of an outgoing connection: any address, any port.
        if matches!(usage, SocketAddrUse::TcpBind) && address.ip().is_unspecified() && address.port() == 0 {
            return true;
        }
        let what = match usage {
            SocketAddrUse::TcpConnect => "tcp connection to",
            SocketAddrUse::TcpBind => "tcp port",
            _ => "udp at",
        };
        let connects = matches!(usage, SocketAddrUse::TcpConnect);
        let allowed = connects && grant.may_open(address);
        if allowed {
            decisions.allow(format_args!("{what} {address}"));
        } else {
            decisions.refuse(format_args!("{what} {address}"), "not granted");
            decisions.refuse_address(connects.then_some(address));
        }
        allowed
    };
    builder.allow_tcp(true).allow_udp(false).socket_addr_check(move |address, usage| {
        let allowed = check(address, usage);
        Box::pin(async move { allowed })
    });
}
