//! The addresses and logins of NATS. Secrets are already read, and no `Debug` output shows them.

use std::path::PathBuf;

use async_trait::async_trait;
use secrecy::SecretString;

use super::LinkError;
use haft_manifest::NatsStorage;

/// The default prefix of all subjects, buckets and streams.
pub const DEFAULT_PREFIX: &str = "haft";

/// Provides the settings of NATS. Called when a connection is made, since reading a secret may prompt a person.
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
    /// How many bytes buckets and streams reserve when they are created.
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
