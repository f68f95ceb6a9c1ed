//! Secrets: redacted in all output of haft. A value is returned only as
//! a `SecretString`, and is redacted from the moment it is read.
//!
//! Redaction is the last layer, not the first: a tool never gets a secret to begin with. It compares values, so it
//! also covers what a server, a log line or a file repeats.

mod answer;
mod encodings;
mod redacting_events;
mod redactor;
mod stream;

use std::path::Path;

use secrecy::SecretString;

pub use self::encodings::encodings_of;
pub use self::redacting_events::RedactingEvents;
pub use self::redactor::Redactor;
pub use self::stream::Stream;

/// The minimum length, in bytes, of a redacted secret: shorter values are words rather than keys (`x-tenant: dev`),
/// and redacting them would make everything unreadable.
pub const MIN_SECRET: usize = 8;

/// The replacement of a secret.
pub(crate) const REDACTED: &str = "***";

/// Ends of names whose values are secrets.
const CREDENTIALS: &[&str] = &[
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "secret_key",
    "token",
    "secret",
    "password",
    "passwd",
    "authorization",
    "cookie",
    "credentials",
];

/// Whether a value of this name is a secret, as far as a name can tell.
pub fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    CREDENTIALS.iter().any(|end| name.ends_with(end))
}

impl Redactor {
    /// Redacts the secrets of the environment: every variable with a name typical of credentials, including the
    /// keys of all providers (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, `GEMINI_API_KEY`, …).
    pub fn of_environment() -> Self {
        let redactor = Self::default();
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        });
        let secrets: Vec<_> =
            variables.filter(is_secret).map(|(_, value)| SecretString::from(value)).collect();
        redactor.add(&secrets);
        redactor
    }
}

/// Whether a variable holds a secret. An existing path (`GOOGLE_APPLICATION_CREDENTIALS`) is no secret itself.
fn is_secret((name, value): &(String, String)) -> bool {
    let path = Path::new(value);
    let is_key = name.to_ascii_lowercase().ends_with("key");
    (is_key || is_credential(name)) && !(path.is_absolute() && path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_all_providers_are_secrets_and_paths_are_not() {
        let secret = |name: &str, value: &str| is_secret(&(name.into(), value.into()));
        for name in [
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "OPENROUTER_API_KEY",
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "PGPASSWORD",
            "MYKEY",
        ] {
            assert!(secret(name, "0123456789"), "{name}");
        }
        assert!(!secret("HOME", "0123456789"));
        assert!(!secret("GOOGLE_APPLICATION_CREDENTIALS", "/etc"));
        assert!(secret("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file/A1b2C3=="));
    }

    #[test]
    fn credentials_are_told_by_their_names() {
        for name in ["api_key", "OPENAI_API_KEY", "X-Api-Key", "Authorization", "GITHUB_TOKEN", "password"] {
            assert!(is_credential(name), "{name}");
        }
        for name in ["max_tokens", "TOKENIZERS_PARALLELISM", "secrets", "key", "SORT_KEY"] {
            assert!(!is_credential(name), "{name}");
        }
    }
}
