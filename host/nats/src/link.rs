//! One connection to NATS: made once, and again by itself whenever it breaks. Tells when that happened, and knows no call.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, kv};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerError};
use haft_core::sync::Lock;
use haft_manifest::NatsStorage;
use secrecy::ExposeSecret;
use tokio::sync::{OnceCell, watch};

use super::error::LinkError;
use super::settings::{Login, Settings};
use super::subjects;

/// How long the first connection may take.
const CONNECTING: Duration = Duration::from_secs(5);

/// How often the server is asked whether it is there: a dead connection is noticed after twice that.
const PING: Duration = Duration::from_secs(10);

/// The longest wait before a broken connection is tried again.
const RECONNECT: Duration = Duration::from_millis(500);

/// How long `JetStream` is waited for: a claim takes a millisecond, and calls wait behind it.
pub(crate) const STORE: Duration = Duration::from_secs(2);

/// Messages that wait in this process for one subscription; what comes then is dropped by the client, which says so.
const WAITING: usize = 16 << 10;

/// What the server refused lately that is remembered.
const MAX_DENIED: usize = 16;

/// A connection to NATS.
pub struct Link {
    pub(crate) client: Client,
    pub(crate) jetstream: jetstream::Context,
    pub(crate) prefix: String,
    pub(crate) storage: NatsStorage,
    state: watch::Receiver<State>,
    /// What this user may not do, in the server's words.
    pub(crate) denied: Arc<Lock<Vec<String>>>,
    /// Once it was looked for.
    pub(crate) claims: OnceCell<kv::Store>,
}

/// How the connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// How often it was made.
    pub(crate) made: u64,
    pub(crate) is_up: bool,
}

impl Link {
    /// Connects as a gate. `name` is what the server calls the connection.
    pub async fn connect(settings: &Settings, name: &str) -> Result<Arc<Self>, LinkError> {
        Self::connect_with_inbox(settings, name, subjects::gate_inbox(&settings.prefix)).await
    }

    /// Connects; the server's answers come to subjects that begin with `inbox`, which no other user should hear.
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

    /// What all subjects, buckets and streams begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// How the connection is, now and from now on.
    pub(crate) fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Waits until what was sent is with the server, for a moment.
    pub(crate) async fn flush(&self) {
        let _ = tokio::time::timeout(STORE, self.client.flush()).await;
    }
}

fn note(state: &watch::Sender<State>, denied: &Lock<Vec<String>>, event: &Event) {
    match event {
        Event::Connected => state.send_modify(|state| *state = State { made: state.made + 1, is_up: true }),
        Event::Disconnected | Event::Closed => state.send_modify(|state| state.is_up = false),
        // Somebody without these permissions is told what the server would have told.
        Event::ServerError(ServerError::Other(text)) => {
            let mut denied = denied.lock();
            // Whether deaths are told is the server's to say, and nothing waits for it.
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
            // A secret has no line end, and the client looks for one.
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
