//! Secrets: masked in everything that haft writes. A value is only given out as a `SecretString`, and is masked from
//! the moment it is read.
//!
//! Masking is the last layer, not the first: a tool never gets a secret to begin with. It works by value, so it also
//! catches what a server, a log line or a file repeats.

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

/// Bytes of the shortest secret that is left out of messages: shorter ones are no keys but words
/// (`x-tenant: dev`), and leaving those out would make everything unreadable.
pub const MIN_SECRET: usize = 8;

/// What stands in the place of a secret.
pub(crate) const REDACTED: &str = "***";
