//! Secrets: redacted in all output of haft. A value is returned only as
//! a `SecretString`, and is redacted from the moment it is read.
//!
//! Redaction is the last layer, not the first: a tool never gets a secret to begin with. It compares values, so it
//! also covers what a server, a log line or a file repeats.

mod answer;
mod redactor;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use secrecy::SecretString;

use crate::encoding::{hex, percent_encoded, percent_encoded_in_lower_case};

pub use self::answer::RedactingEvents;
pub use self::redactor::{ByteStream, Redactor, Stream};

/// The minimum length, in bytes, of a redacted secret: shorter values are words rather than keys (`x-tenant: dev`),
/// and redacting them would make everything unreadable.
pub const MIN_SECRET: usize = 8;

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

/// Returns whether the name suggests that a value is a secret.
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

/// Returns whether a variable holds a secret. An existing path (`GOOGLE_APPLICATION_CREDENTIALS`) is no secret
/// itself.
fn is_secret((name, value): &(String, String)) -> bool {
    let path = Path::new(value);
    let is_key = name.to_ascii_lowercase().ends_with("key");
    (is_key || is_credential(name)) && !(path.is_absolute() && path.exists())
}

// The encodings in which a secret can appear in a text: unmodified, and in the encodings that programs apply by
// default (JSON, HTML, forms, percent, base64, hex). The only list of them, for the output of haft and for the
// input of plugins. Does not search.

/// The minimum length, in bytes, of a line of a secret that is redacted by itself. The lines of a key file have 64,
/// and appear separately in output that numbers or indents them.
const MIN_LINE: usize = 16;

/// Returns every encoding of `secret`. A secret of less than eight bytes has no encoding in base64 or hex: two or
/// three characters are in any text.
pub fn encodings_of(secret: &str) -> BTreeSet<String> {
    let secret = secret.trim();
    let mut encodings = BTreeSet::from([secret.to_owned(), in_html(secret)]);
    encodings.extend(in_json(secret));
    encodings.extend([percent_encoded(secret, b""), percent_encoded_in_lower_case(secret)]);
    encodings.extend(["%20", "+"].map(|space| in_form(secret, space)));
    if secret.len() >= MIN_SECRET {
        encodings.extend((0..3).flat_map(|offset| in_base64(secret.as_bytes(), offset)));
        let hex = hex(secret.as_bytes());
        encodings.extend([hex.to_ascii_uppercase(), hex]);
        encodings.extend(lines(secret).map(str::to_owned));
    }
    encodings.retain(|form| !form.is_empty());
    encodings
}

/// Returns the forms inside a JSON string: of most programs, of PHP (`\/`), of Python (ASCII alone), and of Go
/// (safe in HTML).
fn in_json(secret: &str) -> [String; 5] {
    let quoted = serde_json::Value::from(secret).to_string();
    let plain = quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned();
    let ascii = with_escapes(&plain, |letter| !letter.is_ascii());
    let slashes = |text: &str| text.replace('/', "\\/");
    let html = with_escapes(&plain, |letter| "<>&".contains(letter));
    [slashes(&plain), slashes(&ascii), html, ascii, plain]
}

/// Replaces some letters of `text` by `\u` and four hexadecimal digits (RFC 8259, section 7).
fn with_escapes(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, letter| {
        if is_escaped(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a `String` cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(letter);
        }
        escaped
    })
}

/// Returns the form in texts and attributes of HTML and XML.
fn in_html(secret: &str) -> String {
    let escape = |letter: char| match letter {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        letter => letter.into(),
    };
    secret.chars().map(escape).collect()
}

/// Returns the form in form data (WHATWG URL, `application/x-www-form-urlencoded`), and in queries of many clients.
fn in_form(secret: &str, space: &str) -> String {
    url::form_urlencoded::byte_serialize(secret.as_bytes()).collect::<String>().replace('+', space)
}

/// Returns the base64 forms with `offset` bytes before the secret, as in `user:password`: the characters that
/// depend on the secret alone, in both alphabets.
fn in_base64(secret: &[u8], offset: usize) -> [String; 2] {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(secret);
    let (first, end) = ((offset * 8).div_ceil(6), bytes.len() * 8 / 6);
    let part = |text: String| text.get(first..end).unwrap_or_default().to_owned();
    [part(BASE64_STANDARD.encode(&bytes)), part(BASE64_URL_SAFE.encode(&bytes))]
}

/// Returns the lines of a secret of several lines, without lines that only give its type.
fn lines(secret: &str) -> impl Iterator<Item = &str> {
    let has_several = secret.contains('\n');
    let is_own = |line: &&str| line.len() >= MIN_LINE && !line.starts_with("-----");
    secret.lines().filter(move |_| has_several).map(str::trim).filter(is_own)
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

    #[test]
    fn forms_are_what_other_programs_make_of_a_secret() {
        let encodings = encodings_of("p\"ss/wörd+1 2");
        for form in
            ["p\"ss/wörd+1 2", "p\\\"ss/wörd+1 2", "p%22ss%2Fw%C3%B6rd%2B1%202", "p%22ss%2fw%c3%b6rd%2b1%202"]
        {
            assert!(encodings.contains(form), "{form}: {encodings:?}");
        }
        assert!(!encodings_of("seven77").contains("736576656e3737"));
    }

    /// HA1: the encodings of either of two former lists, and of other common encoders.
    #[test]
    fn forms_of_php_python_go_html_and_forms_are_known() {
        let encodings = encodings_of("ab/cd & <ö>'x\"");
        for form in [
            "ab\\/cd & <\\u00f6>'x\\\"",
            "ab/cd & <\\u00f6>'x\\\"",
            "ab\\/cd & <ö>'x\\\"",
            "ab/cd \\u0026 \\u003cö\\u003e'x\\\"",
            "ab/cd &amp; &lt;ö&gt;&#39;x&quot;",
            "ab%2Fcd+%26+%3C%C3%B6%3E%27x%22",
            "ab%2Fcd%20%26%20%3C%C3%B6%3E%27x%22",
        ] {
            assert!(encodings.contains(form), "{form}: {encodings:?}");
        }
    }

    /// S18: in upper and lower case, with any surrounding text.
    #[test]
    fn hex_is_recognised_in_both_cases() {
        let secret = "sk-4711/ÿ";
        for hex in ["736b2d343731312fc3bf", "736B2D343731312FC3BF"] {
            assert!(encodings_of(secret).contains(hex), "{hex}");
        }
    }

    /// One of the encodings matches at every offset of the secret in the encoded text.
    #[test]
    fn base64_is_recognised_at_every_offset() {
        let secret = "sk-4711-0815?>~~ÿ";
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "\n", "xy"] {
                let text = format!("{before}{secret}{after}");
                for encoded in [BASE64_STANDARD.encode(&text), BASE64_URL_SAFE.encode(&text)] {
                    assert!(encodings_of(secret).iter().any(|form| encoded.contains(form)), "{text}");
                }
            }
        }
    }

    #[test]
    fn every_line_of_a_key_is_a_secret() {
        let encodings = encodings_of(
            "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n  short\n-----END KEY-----\n",
        );
        assert!(encodings.contains("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"));
        assert!(!encodings.iter().any(|form| form.as_str() == "short" || form.starts_with("-----END")));
    }
}
