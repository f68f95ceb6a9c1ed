//! Tools on other machines, over NATS: a gate sends names and arguments, a worker runs the call through its own
//! toolbox with its own rights. Rights are never sent, and no call runs twice.
//!
//! # One call
//! - **Choose:** the gate's fleet knows the workers, their tools and their free places; a call waits a bounded time
//!   for a place.
//! - **Send:** the call goes to one worker, on a subject below the digest of the program: a worker with another
//!   program.lock subscribes to other subjects.
//! - **Claim:** the worker that runs a call which may change anything claims it in a key-value bucket. A gate that
//!   gives the call up claims it too, so that exactly one of the two happens.
//! - **Answer:** the answer comes back, or the notice that the worker is gone: a call that only reads is then sent
//!   to another worker, and the claim of any other call shows whether it ran.
//!
//! docs/protocol.md specifies the protocol.

use std::time::Duration;

mod claims;
mod gate;
mod journal;
mod link;
mod message;
mod payload;
mod replicas;
mod stores;
mod subjects;
mod worker;

pub use self::gate::{Gate, Health, NatsTool, WorkerHealth};
pub use self::journal::{Fetched, JournalError, Shipper, fetch};
pub use self::link::{DEFAULT_PREFIX, Link, Login, Server, Settings, Tls};
pub use self::message::Known;
pub use self::replicas::SharedState;
pub use self::stores::StoreHealth;
pub use self::subjects::{Identity, definition};
pub use self::worker::{Place, Reading, Worker, WorkerSettings};

/// The reason why there is no connection, or a required function is missing.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No server could be reached.
    #[error("cannot connect to NATS at {urls}: {why}")]
    Unreachable {
        /// The URLs.
        urls: String,
        /// The cause.
        why: String,
    },
    /// The server rejects the login.
    #[error("NATS at {0} refuses the login: check the user, token or credentials in `[nats]`")]
    Refused(String),
    /// The settings are invalid.
    #[error("`[nats]` cannot be used: {0}")]
    Unusable(String),
    /// The server denies this user a subject.
    #[error("the NATS user lacks a permission: {0}")]
    Denied(String),
    /// A bucket or stream does not exist and cannot be created.
    #[error("NATS cannot store `{name}`: {why}")]
    Store {
        /// The name.
        name: &'static str,
        /// The cause.
        why: String,
    },
    /// The server does not support a required function, or denies it to this user.
    #[error("NATS cannot be used: {what}: {why}")]
    Server {
        /// The intended action.
        what: &'static str,
        /// The cause.
        why: String,
    },
}

/// Awaits `doing` for at most `time`.
pub(crate) async fn within<T, E: std::fmt::Display>(
    time: Duration,
    what: &'static str,
    doing: impl Future<Output = Result<T, E>>,
) -> Result<T, LinkError> {
    let done = tokio::time::timeout(time, doing).await.map_err(|late| unusable(what, &late))?;
    done.map_err(|error| unusable(what, &error))
}

pub(crate) fn unusable(what: &'static str, error: &impl std::fmt::Display) -> LinkError {
    LinkError::Server { what, why: error.to_string() }
}
