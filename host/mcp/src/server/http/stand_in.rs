//! Stand-ins for the peer of a client whose request rmcp has not seen: they say which revision it speaks, and nothing
//! is sent to them.

use std::convert::Infallible;

use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, ClientJsonRpcMessage, Implementation, InitializeRequestParams, ProtocolVersion,
    ServerJsonRpcMessage,
};
use rmcp::service::{Peer, RunningService, serve_directly};
use rmcp::transport::Transport;

use crate::server::handler::{Handler, ServerShared};

/// A client that never says anything.
struct SilentTransport;

/// A peer, for as long as this lives.
pub(super) struct StandIn(RunningService<RoleServer, Handler>);

impl StandIn {
    /// For clients that speak `version`.
    pub(super) fn new(shared: &ServerShared, version: ProtocolVersion) -> Self {
        // As rmcp describes a client of which it knows the version alone.
        let client = InitializeRequestParams::new(ClientCapabilities::default(), Implementation::default())
            .with_protocol_version(version);
        Self(serve_directly(shared.handler(), SilentTransport, Some(client)))
    }

    pub(super) fn peer(&self) -> &Peer<RoleServer> {
        self.0.peer()
    }
}

impl Transport<RoleServer> for SilentTransport {
    type Error = Infallible;

    fn send(
        &mut self,
        _: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        std::future::pending().await
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
