//! A component that serves HTTP through either interface: of WASI 0.2 or of WASI 0.3.

use serde::{Deserialize, Serialize};
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

const HANDLER: &str = "wasi:http/handler@0.3.";

/// Returns whether components with these exports serve HTTP.
pub(super) fn is_exported(exports: &[&str]) -> bool {
    [INCOMING, HANDLER].iter().any(|interface| is_among(exports, interface))
}

fn is_among(exports: &[&str], interface: &str) -> bool {
    exports.iter().any(|name| name.starts_with(interface))
}

pub(super) enum LinkedServer {
    Incoming(ProxyIndices),
    Handler(ServiceIndices),
}

pub(super) enum Server {
    Incoming(Proxy),
    Handler(Service),
}

impl LinkedServer {
    /// Selects the interface: of two the one with which more servers were tested.
    pub(super) fn new(linked: &InstancePre<GuestState>, exports: &[&str]) -> Result<Self, LoadError> {
        let new = if is_among(exports, INCOMING) {
            ProxyIndices::new(linked).map(Self::Incoming)
        } else {
            ServiceIndices::new(linked).map(Self::Handler)
        };
        new.map_err(|error| LoadError::link(&error))
    }

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
    /// Passes `post` to the guest, and its response to `reader`.
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

// The protocol of a server, discovered and stored with its tools.

/// The newest version of the protocol with a greeting.
pub(super) const GREETING: &str = "2025-11-25";

/// The version without.
pub(super) const STATELESS: &str = "2026-07-28";

/// The protocol of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manner {
    /// The path of the server's endpoint.
    pub(super) path: String,
    /// The protocol version that both sides support.
    pub(super) version: String,
    pub(super) sessions: Sessions,
}

/// The requests before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Sessions {
    /// The server opens no session, so that no request needs an earlier one.
    None,
    /// Each instance needs `initialize` first.
    Greeted,
    /// Without sessions; each request contains the client's metadata of `initialize`.
    Stateless,
}

impl Manner {
    /// Returns the protocol of a server at `path` that supports `initialize`.
    pub(super) fn greeted(path: &str) -> Self {
        Self { path: path.to_owned(), version: GREETING.into(), sessions: Sessions::Greeted }
    }

    /// Returns the protocol of a server at `path` without `initialize`.
    pub(super) fn stateless(path: &str) -> Self {
        Self { path: path.to_owned(), version: STATELESS.into(), sessions: Sessions::Stateless }
    }
}
