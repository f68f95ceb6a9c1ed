//! The beginning of a connection: the handshake of either protocol era, and its failures.

use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, serve_client_with_lifecycle_and_ct};
use rmcp::transport::IntoTransport;
use tokio_util::sync::CancellationToken;

use super::ServerError;
use super::child::{Child, ended};
use super::connection::Connection;
use super::handler::ServerRequestHandler;
use super::http::from_transport_error;
use super::tool_cache::Era;
use haft_sandbox::service;

/// Initializes the connection to a server of `era`.
pub(super) async fn shake_hands<T, E, A>(
    handler: ServerRequestHandler,
    transport: T,
    era: Era,
) -> Result<rmcp::service::RunningService<RoleClient, ServerRequestHandler>, ClientInitializeError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let legacy_version = Some(ProtocolVersion::V_2025_11_25);
    let lifecycle = match era {
        Era::Unknown => ClientLifecycleMode::Auto { preferred_versions, legacy_version },
        Era::Handshake => ClientLifecycleMode::Initialize,
        Era::Stateless => ClientLifecycleMode::Discover { preferred_versions },
    };
    // The token is the connection's own: dropping the returned value cancels it.
    serve_client_with_lifecycle_and_ct(handler, transport, lifecycle, CancellationToken::new()).await
}

/// Returns the connection, if both sides support a common version.
pub(super) fn check_version(connection: Connection) -> Result<Connection, ServerError> {
    let version = connection.peer.peer_info().map(|info| info.protocol_version.clone());
    match version {
        Some(version) if !ProtocolVersion::KNOWN_VERSIONS.contains(&version) => Err(ServerError::Protocol(
            format!("it supports only version `{}`", super::calls::shortened(version.as_str().to_owned())),
        )),
        _ => Ok(connection),
    }
}

/// Returns the reason why a server did not start, if it is a child that may have ended.
pub(super) async fn explain_end(child: &Child, error: &ClientInitializeError) -> ServerError {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            match ended(child).await {
                ServerError::Ended { how, .. }
                    if matches!(child.life.ending(), Some(service::Ending::NotStarted(_))) =>
                {
                    ServerError::Start(how)
                }
                ended => ended,
            }
        }
        error => refused(error),
    }
}

/// Returns the server's own reason for not starting.
pub(super) fn refused(error: &ClientInitializeError) -> ServerError {
    match error {
        ClientInitializeError::JsonRpcError(error) => error.clone().into(),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => refused(fallback),
        ClientInitializeError::TransportError { error, .. } => from_transport_error(error.error.as_ref()),
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            ServerError::Protocol("its answer to `initialize` is invalid".to_owned())
        }
        error => ServerError::Protocol(super::calls::shortened(error.to_string())),
    }
}
