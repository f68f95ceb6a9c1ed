//! Secrets: redacted in all output of haft. A value is returned only as
//! a `SecretString`, and is redacted from the moment it is read.
//!
//! Redaction is the last layer, not the first: a tool never gets a secret to begin with. It compares values, so it
//! also covers what a server, a log line or a file repeats.

mod answer;
mod encodings;
mod environment;
mod redacting_events;
mod redactor;
mod stream;

pub use self::encodings::encodings_of;
pub use self::environment::is_credential;
pub use self::redacting_events::RedactingEvents;
pub use self::redactor::Redactor;
pub use self::stream::Stream;

/// The minimum length, in bytes, of a redacted secret: shorter values are words rather than keys (`x-tenant: dev`),
/// and redacting them would make everything unreadable.
pub const MIN_SECRET: usize = 8;

/// The replacement of a secret.
pub(crate) const REDACTED: &str = "***";
