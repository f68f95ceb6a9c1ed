//! Starts a server, or connects to it, and selects the protocol era that the server supports.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::super::beginning::{check_version, explain_end, refused, shake_hands};
use super::super::bounded::Bounded;
use super::super::calls::OngoingCalls;
use super::super::child::Child;
use super::super::connection::Connection;
use super::super::elicitation::AskingClock;
use super::super::handler::ServerRequestHandler;
use super::super::http;
use super::super::stdio_transport::StdioTransport;
use super::super::tool_cache::{CachedTools, Era};
use super::{Endpoint, Server, ServerError};
use haft_sandbox::service;

/// Minimum time limit for the start of a server, regardless of the limit of a request: some servers
/// are downloaded at their start.
const BEGIN: Duration = Duration::from_mins(1);
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
                let child = Child { life, wire: lines.wire(), grant, table };
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
            calls: Arc::new(OngoingCalls::default()),
            asking: Arc::new(AskingClock::default()),
            changed: Arc::default(),
        }
    }
}
