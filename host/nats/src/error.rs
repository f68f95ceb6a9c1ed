//! Why NATS cannot be used. No secret is in any of it.

/// Why there is no connection, or not what is needed of it.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// None of the servers could be reached.
    #[error("cannot connect to NATS at {urls}: {why}")]
    Unreachable {
        /// Where.
        urls: String,
        /// Why not.
        why: String,
    },
    /// The server does not let this user in.
    #[error("NATS at {0} refuses the login: check the user, token or credentials of `[nats]`")]
    Refused(String),
    /// Something of the settings makes no sense.
    #[error("`[nats]` cannot be used: {0}")]
    Unusable(String),
    /// The server does not let this user hear or say something.
    #[error("NATS does not let this user in where it has to be: {0}")]
    Denied(String),
    /// A bucket or stream is not there and cannot be made.
    #[error("NATS cannot keep `{name}`: {why}")]
    Store {
        /// What.
        name: &'static str,
        /// Why not.
        why: String,
    },
    /// The server does not do, or does not let this user do, what is needed.
    #[error("NATS cannot be used: {what}: {why}")]
    Server {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        why: String,
    },
}

pub(crate) fn unusable(what: &'static str, error: &impl std::fmt::Display) -> LinkError {
    LinkError::Server { what, why: error.to_string() }
}
