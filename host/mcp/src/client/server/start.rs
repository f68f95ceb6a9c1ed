//! Starts a server, or connects to it, with a pause after failures: the handshake in the protocol era that the server
//! supports, and its failures.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle_and_ct,
};
use rmcp::transport::IntoTransport;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{Connection, Endpoint, Server, ServerError};
use crate::client::bounded::Bounded;
use crate::client::calls::shortened;
use crate::client::child::{Child, ended};
use crate::client::handler::ServerRequestHandler;
use crate::client::http::{self, from_transport_error};
use crate::client::stdio_transport::StdioTransport;
use crate::client::tool_cache::{CachedTools, Era};
use haft_sandbox::service;

/// Minimum time limit for the start of a server, regardless of the limit of a request: some servers
/// are downloaded at their start.
const BEGIN: Duration = Duration::from_mins(1);

/// The pause after the second failure in a row. Each further failure doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// The place of the connection, and the failures since the server last worked.
#[derive(Debug, Default)]
pub(super) struct ConnectionSlot {
    pub(super) connection: Option<Arc<Connection>>,
    pub(super) era: Era,
    /// The number of failures since the server last worked.
    failures: u32,
    /// The earliest time of the next start.
    pub(super) not_before: Option<Instant>,
    /// The reason why the server's tools could not be listed.
    pub(super) unlisted: Option<ServerError>,
}

impl ConnectionSlot {
    pub(super) fn open(&self) -> Option<Arc<Connection>> {
        self.connection.clone().filter(|connection| !connection.is_closed())
    }

    /// Records that the server has failed or ended. After the first failure the next call restarts the server without a
    /// pause.
    pub(super) fn note_end(&mut self, had_worked: bool) {
        self.failures = if had_worked { 1 } else { self.failures.saturating_add(1) };
        let doublings = self.failures.saturating_sub(2).min(10);
        let pause = if self.failures < 2 { Duration::ZERO } else { FIRST_PAUSE * (1 << doublings) };
        self.not_before = Some(Instant::now() + pause.min(MAX_PAUSE));
    }
}

impl Server {
    /// Connects in the protocol era that the server supports, if known, otherwise tries both.
    pub(super) async fn open(&self, era: Era) -> Result<Connection, ServerError> {
        let remembered = self.file().and_then(|file| CachedTools::read(&file)).map(|cached| cached.era);
        let first = if era == Era::Unknown { remembered.unwrap_or_default() } else { era };
        let second = if first == Era::Unknown { Era::Handshake } else { Era::Unknown };
        match self.begin(first).await {
            Err(error) if error.may_be_wrong_era() => {
                tracing::debug!(server = self.config.name, %error, "trying the other way to initialize");
                self.begin(second).await
            }
            begun => begun,
        }
    }

    async fn begin(&self, era: Era) -> Result<Connection, ServerError> {
        let limit = self.config.limits.start.unwrap_or_else(|| self.config.timeout.max(BEGIN));
        let handler = self.handler();
        let late = |noise| ServerError::TimedOut { method: "initialize", limit, noise };
        match &self.config.endpoint {
            Endpoint::Http { url, headers, account } => {
                let headers = headers.read().await.map_err(ServerError::Secret)?;
                let transport = http::transport(url, &headers, account.as_ref(), &handler.changed)?;
                let running = timeout(limit, shake_hands(handler.clone(), transport, era)).await;
                let running = match running.map_err(|_| late(String::new()))? {
                    Ok(running) => running,
                    Err(error) => {
                        let error = refused(&error);
                        let is_old = error.may_be_wrong_era() && http::is_of_2024(url, &headers).await;
                        return Err(if is_old { ServerError::Http2024 } else { error });
                    }
                };
                check_version(Connection::new(running, handler, None))
            }
            Endpoint::Stdio { .. } => {
                let service::Service { input, output, life } = self.start().await?;
                let lines = StdioTransport::new(input, output, handler.changed.clone());
                let (grant, table) = (self.host.grant.clone(), self.host.table.clone());
                let child = Child { life, wire: lines.wire.clone(), grant, table };
                match timeout(limit, shake_hands(handler.clone(), Bounded::new(lines), era)).await {
                    Ok(Ok(running)) => check_version(Connection::new(running, handler, Some(child))),
                    Ok(Err(error)) => Err(explain_end(&child, &error).await),
                    Err(_) => Err(late(child.wire.noise())),
                }
            }
        }
    }

    async fn start(&self) -> Result<service::Service, ServerError> {
        let program = self.config.program()?;
        let Endpoint::Stdio { command, environment, .. } = &self.config.endpoint else {
            return Err(ServerError::Start("it is not a command".to_owned()));
        };
        let environment = environment.read().await.map_err(ServerError::Secret)?;
        let job = service::ServiceSpec {
            program,
            arguments: command.iter().skip(1).map(Into::into).collect(),
            environment: environment
                .iter()
                .map(|(name, value)| (name.into(), secrecy::ExposeSecret::expose_secret(value).into()))
                .collect(),
            limits: self.config.limits.processes,
        };
        let server = self.config.name.clone();
        let log_line = move |line: &str| tracing::info!(server, "{line}");
        let started = service::start(&self.host.confiner, &job, &self.host.grant, log_line).await;
        started.map_err(|error| ServerError::Start(error.to_string()))
    }

    fn handler(&self) -> ServerRequestHandler {
        ServerRequestHandler {
            server: self.config.name.clone(),
            workspace: self.host.grant.workspace().map(|workspace| workspace.path().to_owned()),
            elicitor: self.host.elicitor.clone(),
            updates: self.updates.clone(),
            asking: Arc::default(),
            changed: Arc::default(),
        }
    }
}

/// Initializes the connection to a server of `era`.
async fn shake_hands<T, E, A>(
    handler: ServerRequestHandler,
    transport: T,
    era: Era,
) -> Result<RunningService<RoleClient, ServerRequestHandler>, ClientInitializeError>
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

fn check_version(connection: Connection) -> Result<Connection, ServerError> {
    let version = connection.peer.peer_info().map(|info| info.protocol_version.clone());
    match version {
        Some(version) if !ProtocolVersion::KNOWN_VERSIONS.contains(&version) => Err(ServerError::Protocol(
            format!("it supports only version `{}`", shortened(version.as_str().to_owned())),
        )),
        _ => Ok(connection),
    }
}

/// Returns the reason why a server did not start, if it is a child that may have ended.
async fn explain_end(child: &Child, error: &ClientInitializeError) -> ServerError {
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
fn refused(error: &ClientInitializeError) -> ServerError {
    match error {
        ClientInitializeError::JsonRpcError(error) => error.clone().into(),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => refused(fallback),
        ClientInitializeError::TransportError { error, .. } => from_transport_error(error.error.as_ref()),
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            ServerError::Protocol("its answer to `initialize` is invalid".to_owned())
        }
        error => ServerError::Protocol(shortened(error.to_string())),
    }
}
