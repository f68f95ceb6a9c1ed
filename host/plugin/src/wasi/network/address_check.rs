//! The check of each TCP address: a guest connects to the addresses of its grant and to no other, and never listens.
//! Refused addresses are recorded for hints.

use std::net::SocketAddr;
use std::sync::Arc;

use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::sockets::SocketAddrUse;

use crate::denials::denied_access::PathSamples;
use crate::denials::network_decisions::NetworkDecisions;
use haft_core::grant::Grant;
use haft_core::sync::Lock;

/// Addresses that a guest was refused. Shared with the check, which wasmtime owns.
#[derive(Clone, Debug)]
pub(crate) struct RefusedAddresses {
    addresses: Arc<Lock<Addresses>>,
    decisions: NetworkDecisions,
}

#[derive(Debug, Default)]
struct Addresses {
    connections: PathSamples,
    listening: bool,
}

impl RefusedAddresses {
    /// No refusals yet; decisions are added to `decisions` as well.
    pub(crate) fn new(decisions: &NetworkDecisions) -> Self {
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
            self.record(address, usage);
        }
    }

    fn record(&self, address: SocketAddr, usage: SocketAddrUse) {
        let mut addresses = self.addresses.lock();
        match usage {
            SocketAddrUse::TcpConnect => addresses.connections.record(address.to_string()),
            _ => addresses.listening = true,
        }
    }

    /// Forgets what was refused.
    pub(crate) fn clear(&self) {
        *self.addresses.lock() = Addresses::default();
    }

    /// Addresses of refused connections, in order.
    pub(crate) fn connections(&self) -> Vec<String> {
        let addresses = self.addresses.lock();
        addresses.connections.iter().map(|address| address.to_string()).collect()
    }

    /// Whether the guest tried to listen.
    pub(crate) fn listening(&self) -> bool {
        self.addresses.lock().listening
    }
}

/// Allows TCP connections to the addresses that the grant names, and notes every other attempt.
pub(crate) fn allow_granted(builder: &mut WasiCtxBuilder, grant: &Arc<Grant>, refused: &RefusedAddresses) {
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
