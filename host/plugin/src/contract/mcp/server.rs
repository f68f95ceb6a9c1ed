//! A component that serves HTTP, by either of the interfaces that there are for it.

use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};
use wasmtime_wasi_http::p2::bindings::{Proxy, ProxyIndices};
use wasmtime_wasi_http::p3::bindings::{Service, ServiceIndices};

use crate::failure::LoadError;
use crate::instance::state::GuestState;
use crate::wasi::http::handler;
use crate::wasi::http::incoming::{self, AfterAnswer, Post, ReadAnswer};

/// The interface of WASI 0.2; the rest of its version follows.
const INCOMING: &str = "wasi:http/incoming-handler@0.2.";

/// The interface of WASI 0.3.
const HANDLER: &str = "wasi:http/handler@0.3.";

/// Whether components with these exports serve HTTP.
pub(super) fn is_exported(exports: &[&str]) -> bool {
    [INCOMING, HANDLER].iter().any(|interface| is_among(exports, interface))
}

fn is_among(exports: &[&str], interface: &str) -> bool {
    exports.iter().any(|name| name.starts_with(interface))
}

/// A linked component.
pub(super) enum LinkedServer {
    Incoming(ProxyIndices),
    Handler(ServiceIndices),
}

/// One instance of it.
pub(super) enum Server {
    Incoming(Proxy),
    Handler(Service),
}

impl LinkedServer {
    /// Of two interfaces the one that more servers were tried with.
    pub(super) fn new(linked: &InstancePre<GuestState>, exports: &[&str]) -> Result<Self, LoadError> {
        let new = if is_among(exports, INCOMING) {
            ProxyIndices::new(linked).map(Self::Incoming)
        } else {
            ServiceIndices::new(linked).map(Self::Handler)
        };
        new.map_err(|error| LoadError::link(&error))
    }

    /// The server that an instance is.
    pub(super) fn load(
        &self,
        store: &mut Store<GuestState>,
        instance: &Instance,
    ) -> wasmtime::Result<Server> {
        match self {
            Self::Incoming(indices) => indices.load(store, instance).map(Server::Incoming),
            Self::Handler(indices) => indices.load(store, instance).map(Server::Handler),
        }
    }
}

impl Server {
    /// Hands `post` to the guest, and what it answers to `reader`.
    pub(super) async fn exchange(
        &self,
        store: &mut Store<GuestState>,
        post: Post,
        reader: &mut impl ReadAnswer,
    ) -> wasmtime::Result<AfterAnswer> {
        match self {
            Self::Incoming(guest) => incoming::exchange(store, guest, post, reader).await,
            Self::Handler(guest) => handler::exchange(store, guest, post, reader).await,
        }
    }
}
