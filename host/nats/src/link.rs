//! One connection to NATS: made once, and again by itself whenever it breaks. Tells when that happened, and knows no call.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, kv, object_store};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerError};
use secrecy::ExposeSecret;
use tokio::sync::{OnceCell, watch};

use super::error::{LinkError, unusable};
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

/// How long what is too large for a message is kept for whoever it is sent to.
const PAYLOAD_AGE: Duration = Duration::from_mins(10);

/// Bytes of all that is kept so.
const PAYLOAD_BYTES: i64 = 4 << 30;

/// How long a claim is kept: many times as long as a call may lie on its way (`MAX_AGE` of requests).
const CLAIM_AGE: Duration = Duration::from_hours(2);

/// Bytes of all claims: two million of them, of 250 bytes. A claim that has no room is not made, and its call not run.
const CLAIM_BYTES: i64 = 512 << 20;

/// A connection to NATS.
pub struct Link {
    pub(crate) client: Client,
    pub(crate) jetstream: jetstream::Context,
    pub(crate) prefix: String,
    state: watch::Receiver<State>,
    claims: OnceCell<kv::Store>,
    payloads: OnceCell<object_store::ObjectStore>,
}

/// How the connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// How often it was made.
    pub(crate) made: u64,
    pub(crate) is_up: bool,
}

impl Link {
    /// Connects. `name` is what the server calls the connection.
    pub async fn connect(settings: &Settings, name: &str) -> Result<Arc<Self>, LinkError> {
        Self::connect_with_inbox(settings, name, None).await
    }

    /// The same, with what the subjects begin with that the server's answers come to, in the place of `_INBOX`.
    pub(crate) async fn connect_with_inbox(
        settings: &Settings,
        name: &str,
        inbox: Option<String>,
    ) -> Result<Arc<Self>, LinkError> {
        let (sender, state) = watch::channel(State::default());
        let options = options(settings)?.name(name);
        let options = match inbox {
            Some(inbox) => options.custom_inbox_prefix(inbox),
            None => options,
        };
        let options = options.event_callback(move |event| {
            note(&sender, &event);
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
        let (prefix, claims, payloads) = (settings.prefix.clone(), OnceCell::new(), OnceCell::new());
        Ok(Arc::new(Self { client, jetstream, prefix, state, claims, payloads }))
    }

    /// What all subjects, buckets and streams begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// How the connection is, now and from now on.
    pub(crate) fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// The bucket of claims, made where it is not there.
    pub(crate) async fn claims(&self) -> Result<&kv::Store, LinkError> {
        let make = || async {
            let bucket = subjects::claims(&self.prefix);
            if let Ok(store) = self.jetstream.get_key_value(&bucket).await {
                return Ok(store);
            }
            let config = kv::Config {
                bucket,
                description: "which calls were claimed by whom, and what became of them".into(),
                max_age: CLAIM_AGE,
                max_bytes: CLAIM_BYTES,
                storage: jetstream::stream::StorageType::File,
                ..kv::Config::default()
            };
            self.jetstream.create_key_value(config).await
        };
        self.claims.get_or_try_init(make).await.map_err(|error| unusable("the bucket of claims", &error))
    }

    /// The bucket of what is too large for a message, made where it is not there.
    pub(crate) async fn payloads(&self) -> Result<&object_store::ObjectStore, LinkError> {
        let make = || async {
            let bucket = subjects::payloads(&self.prefix);
            if let Ok(store) = self.jetstream.get_object_store(&bucket).await {
                return Ok(store);
            }
            let config = object_store::Config {
                bucket,
                description: Some("arguments and answers that are too large for a message".into()),
                max_age: PAYLOAD_AGE,
                max_bytes: PAYLOAD_BYTES,
                storage: jetstream::stream::StorageType::File,
                num_replicas: 1,
                ..object_store::Config::default()
            };
            self.jetstream.create_object_store(config).await
        };
        self.payloads.get_or_try_init(make).await.map_err(|error| unusable("the bucket of payloads", &error))
    }

    /// Waits until what was sent is with the server, for a moment.
    pub(crate) async fn flush(&self) {
        let _ = tokio::time::timeout(STORE, self.client.flush()).await;
    }
}

fn note(state: &watch::Sender<State>, event: &Event) {
    match event {
        Event::Connected => state.send_modify(|state| *state = State { made: state.made + 1, is_up: true }),
        Event::Disconnected | Event::Closed => state.send_modify(|state| state.is_up = false),
        // Somebody without these permissions is told what the server would have told.
        Event::ServerError(ServerError::Other(text)) => tracing::warn!("NATS: {text}"),
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
