//! A connection to NATS, which reconnects automatically. Reports reconnections, and is independent of calls.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, kv};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerError};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{OnceCell, watch};

use super::{LinkError, subjects};
use async_trait::async_trait;
use haft_core::sync::Lock;
use haft_manifest::NatsStorage;

/// Time limit for the first connection.
const CONNECTING: Duration = Duration::from_secs(5);

/// The interval of pings: a dead connection is detected after twice that.
const PING: Duration = Duration::from_secs(10);

/// The longest wait between reconnection attempts.
const RECONNECT: Duration = Duration::from_millis(500);

/// The timeout of `JetStream` requests: a claim takes a millisecond, and calls wait for it.
pub(crate) const STORE: Duration = Duration::from_secs(2);

/// The maximum number of queued messages of a subscription; the client drops more and reports that.
const WAITING: usize = 16 << 10;

/// The maximum number of remembered permission errors.
const MAX_DENIED: usize = 16;

/// A connection to NATS.
pub struct Link {
    pub(crate) client: Client,
    pub(crate) jetstream: jetstream::Context,
    pub(crate) prefix: String,
    pub(crate) storage: NatsStorage,
    state: watch::Receiver<State>,
    /// The permission errors, in the server's words.
    pub(crate) denied: Arc<Lock<Vec<String>>>,
    /// The bucket of claims, once opened.
    pub(crate) claims: OnceCell<kv::Store>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The number of connections that were made.
    pub(crate) made: u64,
    pub(crate) is_up: bool,
}

impl Link {
    /// Connects as a gate. `name` is the name of the connection at the server.
    ///
    /// # Errors
    /// NATS cannot be used.
    pub async fn connect(settings: &Settings, name: &str) -> Result<Arc<Self>, LinkError> {
        Self::connect_with_inbox(settings, name, subjects::gate_inbox(&settings.prefix)).await
    }

    /// Connects; the server sends its responses to subjects that begin with `inbox`, which no other user should be
    /// permitted.
    pub(crate) async fn connect_with_inbox(
        settings: &Settings,
        name: &str,
        inbox: String,
    ) -> Result<Arc<Self>, LinkError> {
        let (sender, state) = watch::channel(State::default());
        let denied = Arc::<Lock<Vec<String>>>::default();
        let noted = denied.clone();
        let options = options(settings)?.name(name).custom_inbox_prefix(inbox);
        let options = options.event_callback(move |event| {
            note(&sender, &noted, &event);
            std::future::ready(())
        });
        let urls = settings.urls.join(", ");
        let client = options.connect(settings.urls.clone()).await.map_err(|error| match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                LinkError::Refused(urls.clone())
            }
            _ => LinkError::Unreachable { urls: urls.clone(), why: error.to_string() },
        })?;
        let jetstream = jetstream::context::ContextBuilder::new().timeout(STORE).build(client.clone());
        let (prefix, storage, claims) = (settings.prefix.clone(), settings.storage, OnceCell::new());
        Ok(Arc::new(Self { client, jetstream, prefix, storage, state, denied, claims }))
    }

    /// Returns the prefix of all subjects, buckets and streams.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the state of the connection, and its changes.
    pub(crate) fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Waits for a connection after the one of `state`.
    pub(crate) async fn reconnected(state: &mut watch::Receiver<State>) {
        let made = state.borrow_and_update().made;
        if state.wait_for(|now| now.made != made).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits, for a bounded time, until the server has received all sent messages.
    pub(crate) async fn flush(&self) {
        let _ = tokio::time::timeout(STORE, self.client.flush()).await;
    }
}

fn note(state: &watch::Sender<State>, denied: &Lock<Vec<String>>, event: &Event) {
    match event {
        Event::Connected => state.send_modify(|state| *state = State { made: state.made + 1, is_up: true }),
        Event::Disconnected | Event::Closed => state.send_modify(|state| state.is_up = false),
        // A user without the permission gets the server's text.
        Event::ServerError(ServerError::Other(text)) => {
            let mut denied = denied.lock();
            // Disconnect events are optional, and nothing depends on them.
            if denied.len() < MAX_DENIED && !text.contains(subjects::DISCONNECTS) {
                denied.push(text.clone());
            }
            tracing::warn!("NATS: {text}");
        }
        event => tracing::debug!("NATS: {event}"),
    }
}

fn options(settings: &Settings) -> Result<ConnectOptions, LinkError> {
    let unusable = |error: std::io::Error| LinkError::Unusable(format!("`credentials`: {error}"));
    let options = ConnectOptions::new()
        .connection_timeout(CONNECTING)
        .ping_interval(PING)
        .subscription_capacity(WAITING)
        .reconnect_delay_callback(|attempts| match attempts {
            0 | 1 => Duration::ZERO,
            attempts => {
                RECONNECT.min(Duration::from_millis(20) * u32::try_from(attempts).unwrap_or(u32::MAX))
            }
        });
    let options = match &settings.login {
        Login::Nobody => options,
        Login::User(user, password) => {
            options.user_and_password(user.expose_secret().into(), password.expose_secret().into())
        }
        Login::Token(token) => options.token(token.expose_secret().into()),
        Login::Credentials(text) => {
            // The client expects a trailing line end, which the secret lacks.
            options.credentials(&format!("{}\n", text.expose_secret())).map_err(unusable)?
        }
        Login::Nkey(seed) => options.nkey(seed.expose_secret().into()),
    };
    let options = match &settings.tls.ca {
        Some(path) => options.add_root_certificates(path.clone()),
        None => options,
    };
    Ok(match &settings.tls.certificate {
        Some((certificate, key)) => options.add_client_certificate(certificate.clone(), key.clone()),
        None => options,
    })
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}

/// The default prefix of all subjects, buckets and streams.
pub const DEFAULT_PREFIX: &str = "haft";

/// Provides the settings of NATS. Called when a connection is made, because reading a secret may prompt a person.
#[async_trait]
pub trait Server: Send + Sync {
    /// Returns the settings.
    async fn settings(&self) -> Result<Settings, LinkError>;
}

/// The addresses and the login of NATS.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The URLs of the servers of one cluster, such as `nats://127.0.0.1:4222`, without passwords.
    pub urls: Vec<String>,
    /// The login.
    pub login: Login,
    /// The encryption of connections.
    pub tls: Tls,
    /// The prefix of all subjects, buckets and streams: lower-case letters, digits and `-`.
    pub prefix: String,
    /// The number of bytes that buckets and streams reserve at their creation.
    pub storage: NatsStorage,
}

/// The login at the server.
#[derive(Clone, Debug, Default)]
pub enum Login {
    /// No login, or only the client's certificate.
    #[default]
    Nobody,
    /// A user and a password.
    User(SecretString, SecretString),
    /// A token.
    Token(SecretString),
    /// A user's JWT and seed, as in a `.creds` file.
    Credentials(SecretString),
    /// A user's seed.
    Nkey(SecretString),
}

/// The encryption of connections. The default: the system's certificates, if the server requires TLS.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// A file with certificates to trust in addition to those of the system.
    pub ca: Option<PathBuf>,
    /// The client's certificate and its private key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}
