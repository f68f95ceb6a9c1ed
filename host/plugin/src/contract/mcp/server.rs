//! A component that serves HTTP, by either of the interfaces that there are for it.

use wasmtime::Store;
use wasmtime::component::{Component, InstancePre};
use wasmtime_wasi_http::p2::bindings::{Proxy, ProxyPre};
use wasmtime_wasi_http::p3::bindings::{Service, ServicePre};

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
#[derive(Clone)]
pub(super) enum LinkedServer {
    Incoming(ProxyPre<GuestState>),
    Handler(ServicePre<GuestState>),
}

/// One instance of it.
pub(super) enum Server {
    Incoming(Proxy),
    Handler(Service),
}

impl LinkedServer {
    /// Of two interfaces the one that more servers were tried with.
    pub(super) fn new(linked: InstancePre<GuestState>, exports: &[&str]) -> Result<Self, LoadError> {
        let new = if is_among(exports, INCOMING) {
            ProxyPre::new(linked).map(Self::Incoming)
        } else {
            ServicePre::new(linked).map(Self::Handler)
        };
        new.map_err(|error| LoadError::link(&error))
    }

    pub(super) fn component(&self) -> &Component {
        match self {
            Self::Incoming(linked) => linked.instance_pre().component(),
            Self::Handler(linked) => linked.instance_pre().component(),
        }
    }

    pub(super) async fn instantiate(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Server> {
        match self {
            Self::Incoming(linked) => linked.instantiate_async(store).await.map(Server::Incoming),
            Self::Handler(linked) => linked.instantiate_async(store).await.map(Server::Handler),
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
        // On the heap: they would make the future of every call of a plugin larger.
        match self {
            Self::Incoming(guest) => Box::pin(incoming::exchange(store, guest, post, reader)).await,
            Self::Handler(guest) => Box::pin(handler::exchange(store, guest, post, reader)).await,
        }
    }
}
