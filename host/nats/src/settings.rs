//! Where NATS is, and who this process is there. Secrets are values here already, and no debug form shows them.

use std::path::PathBuf;

use async_trait::async_trait;
use haft_manifest::NatsStorage;
use secrecy::SecretString;

use super::error::LinkError;

/// What all subjects, buckets and streams begin with unless program.toml says otherwise.
pub const DEFAULT_PREFIX: &str = "haft";

/// Knows where NATS is. Asked when a connection is made, since reading a secret may ask a person.
#[async_trait]
pub trait Server: Send + Sync {
    /// Where, and who this process is there.
    async fn settings(&self) -> Result<Settings, LinkError>;
}

/// Where NATS is, and who this process is there.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Servers of one cluster, such as `nats://127.0.0.1:4222`. They hold no password.
    pub urls: Vec<String>,
    /// Who this process is.
    pub login: Login,
    /// What connections are encrypted with.
    pub tls: Tls,
    /// What all subjects, buckets and streams begin with: lower-case letters, digits and `-`.
    pub prefix: String,
    /// Bytes that buckets and streams reserve where they are made.
    pub storage: NatsStorage,
}

/// Who this process is at the server.
#[derive(Clone, Debug, Default)]
pub enum Login {
    /// Anybody, or whoever the client's certificate says.
    #[default]
    Nobody,
    /// A user with a password.
    User(SecretString, SecretString),
    /// Whoever has the token.
    Token(SecretString),
    /// A user's JWT and seed, as a `.creds` file has them.
    Credentials(SecretString),
    /// A user's seed.
    Nkey(SecretString),
}

/// What connections are encrypted with. The default: the system's certificates, where the server wants TLS.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// A file with the certificates to trust besides those of the system.
    pub ca: Option<PathBuf>,
    /// The client's certificate, and its private key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}
