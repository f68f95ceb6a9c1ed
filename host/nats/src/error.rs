//! Why NATS cannot be used. Messages contain no secret.

/// Why there is no connection, or a required function is missing.
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
    #[error("NATS at {0} refuses the login: check the user, token or credentials of `[nats]`")]
    Refused(String),
    /// The settings are invalid.
    #[error("`[nats]` cannot be used: {0}")]
    Unusable(String),
    /// The server denies this user a subject.
    #[error("NATS does not let this user in where it has to be: {0}")]
    Denied(String),
    /// A bucket or stream does not exist and cannot be created.
    #[error("NATS cannot keep `{name}`: {why}")]
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

pub(crate) fn unusable(what: &'static str, error: &impl std::fmt::Display) -> LinkError {
    LinkError::Server { what, why: error.to_string() }
}
