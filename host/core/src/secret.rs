//! Secrets: read from the sources in program.toml, and redacted in all output of haft. A value is returned only as
//! a `SecretString`, and is redacted from the moment it is read.
//!
//! Redaction is the last layer, not the first: a tool never gets a secret to begin with. It compares values, so it
//! also covers what a server, a log line or a file repeats.

mod answer;
mod encodings;
mod environment;
mod error;
#[cfg_attr(target_os = "linux", path = "secret/keyring/linux.rs")]
#[cfg_attr(target_os = "macos", path = "secret/keyring/macos.rs")]
mod keyring;
mod read;
mod redacting_events;
mod redactor;
mod stream;

pub use self::encodings::encodings_of;
pub use self::error::SecretError;
pub use self::read::Secrets;
pub use self::redacting_events::RedactingEvents;
pub use self::redactor::Redactor;
pub use self::stream::Stream;

/// The minimum length, in bytes, of a redacted secret: shorter values are words rather than keys (`x-tenant: dev`),
/// and redacting them would make everything unreadable.
pub(crate) const MIN_SECRET: usize = 8;

/// 64 KiB: ten times the largest certificate chain with its key.
pub(crate) const MAX_SECRET: usize = 64 << 10;

/// The replacement of a secret.
pub(crate) const REDACTED: &str = "***";
