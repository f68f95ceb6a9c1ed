//! `wasi:sockets` as guests see it: TCP connections to the addresses of the grant and to no
//! other, no listening, no UDP, no name lookup; and a note of what was refused.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::{
    Host, HostResolveAddressStream, ResolveAddressStream,
};
use wasmtime_wasi::p2::bindings::sockets::network::{
    self, ErrorCode, HostNetwork, IpAddress, IpAddressFamily, Network,
};
use wasmtime_wasi::p2::bindings::sockets::udp_create_socket::{self, UdpSocket};
use wasmtime_wasi::p2::{DynPollable, SocketError};
use wasmtime_wasi::sockets::{SocketAddrUse, WasiSocketsCtxView};

use crate::denials::denied_access::{DeniedAccess, Few};
use crate::denials::network_decisions::NetworkDecisions;
use crate::instance::state::State;
use haft_core::grant::Grant;

/// Addresses a guest was refused. Shared with the check, which wasmtime owns.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    addresses: Arc<Mutex<Addresses>>,
    decisions: NetworkDecisions,
}

#[derive(Debug, Default)]
struct Addresses {
    connections: Few,
    listening: bool,
}

impl Refused {
    /// Nothing refused yet; what is decided is told to `decisions` as well.
    pub(crate) fn noting(decisions: &NetworkDecisions) -> Self {
        Self { addresses: Arc::default(), decisions: decisions.clone() }
    }

    fn decide(&self, address: SocketAddr, usage: SocketAddrUse, allowed: bool) {
        let what = match usage {
            SocketAddrUse::TcpConnect => "tcp connection to",
            SocketAddrUse::TcpBind => "tcp port",
            _ => "udp at",
        };
        if allowed {
            self.decisions.allow(format_args!("{what} {address}"));
        } else {
            self.decisions.refuse(format_args!("{what} {address}"), "not granted");
            self.note(address, usage);
        }
    }

    fn note(&self, address: SocketAddr, usage: SocketAddrUse) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        match usage {
            SocketAddrUse::TcpConnect => addresses.connections.note(address.to_string()),
            _ => addresses.listening = true,
        }
    }

    /// Forgets what was refused.
    pub(crate) fn clear(&self) {
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = Addresses::default();
    }

    /// Where it wanted to connect to, in order.
    pub(crate) fn connections(&self) -> Vec<String> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.connections.iter().map(|address| address.to_string()).collect()
    }

    /// Whether it wanted to be connected to.
    pub(crate) fn listening(&self) -> bool {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).listening
    }
}

/// Allows TCP connections to the addresses that the grant names, and notes every other attempt.
pub(crate) fn allow(builder: &mut WasiCtxBuilder, grant: &Arc<Grant>, refused: &Refused) {
    let (grant, refused) = (grant.clone(), refused.clone());
    let check = move |address: SocketAddr, usage: SocketAddrUse| {
        // The local end of an outgoing connection: any address, any port.
        if matches!(usage, SocketAddrUse::TcpBind) && address.ip().is_unspecified() && address.port() == 0 {
            return true;
        }
        let connects = matches!(usage, SocketAddrUse::TcpConnect);
        let allowed = connects && grant.may_open(address);
        refused.decide(address, usage, allowed);
        allowed
    };
    builder.allow_tcp(true).allow_udp(false).socket_addr_check(move |address, usage| {
        let allowed = check(address, usage);
        Box::pin(async move { allowed })
    });
}

/// The type under which wasmtime finds [`Lookup`] in a store.
pub(crate) struct HasLookup;

/// A guest's view of what it is always refused: names and datagrams.
pub(crate) struct Lookup<'a> {
    inner: WasiSocketsCtxView<'a>,
    wanted: &'a mut DeniedAccess,
}

impl HasData for HasLookup {
    type Data<'a> = Lookup<'a>;
}

/// The view of one store.
pub(crate) fn view(state: &mut State) -> Lookup<'_> {
    let inner = WasiSocketsCtxView { ctx: state.wasi.sockets(), table: &mut state.table };
    Lookup { inner, wanted: &mut state.wanted }
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
        self.wanted.names = true;
        self.inner.resolve_addresses(network, name)
    }
}

impl udp_create_socket::Host for Lookup<'_> {
    async fn create_udp_socket(
        &mut self,
        family: IpAddressFamily,
    ) -> Result<Resource<UdpSocket>, SocketError> {
        self.wanted.datagrams = true;
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
