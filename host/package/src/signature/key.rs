//! Public keys from the user. Refuses kinds of keys that haft cannot verify signatures with.

use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey};

use crate::Digest;
use crate::listing::read_text;

/// Limit on the bytes of a key file: ten times the longest.
const MAX_FILE: u64 = 16 << 10;

/// The DER prefix of an ECDSA P-256 key, before its point (`SubjectPublicKeyInfo`, RFC 5480).
const P256: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Number of bytes of the uncompressed point.
const P256_POINT: usize = 65;

/// The DER prefix of an Ed25519 key (RFC 8410).
const ED25519_PREFIX: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Number of bytes of the key.
const ED25519_KEY: usize = 32;

/// Number of bytes of a minisign key: the algorithm (2), the identifier (8), the key (32).
const MINISIGN: usize = 2 + 8 + 32;

const PEM_BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const PEM_END: &str = "-----END PUBLIC KEY-----";

/// The prefixes of the schemes in a key's one-word form.
const COSIGN_SCHEME: &str = "cosign:";
const MINISIGN_SCHEME: &str = "minisign:";

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// The complete DER.
    P256(Vec<u8>),
    /// The complete DER.
    Ed25519(Vec<u8>),
    /// The decoded bytes of minisign's form.
    Minisign([u8; MINISIGN]),
}

/// Reasons why a text is not a usable key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is neither a key nor a file.
    #[error("`{0}` is neither a public key nor a file with one: {1}")]
    Neither(String, String),
    /// The key's kind is not supported.
    #[error(
        "a key of this kind cannot be used: expected ECDSA P-256 or Ed25519, as cosign and minisign make them"
    )]
    Unsupported,
    /// The key is a secret key.
    #[error("this is a secret key; verification needs the public key (`cosign.pub`, `minisign.pub`)")]
    Secret,
    /// The text is not a key.
    #[error("not a public key: expected a PEM key, or the line that minisign prints (`RW…`)")]
    NotAKey,
    /// The text is not an identity.
    #[error(
        "not an identity: expected `sigstore:ISSUER#SUBJECT`, such as \
         `sigstore:https://accounts.example.com#ada@example.com`"
    )]
    NotAnIdentity,
}

impl PublicKey {
    /// Parses an argument: the key itself, or the path of a file that contains it.
    pub fn from_argument(text: &str) -> Result<Self, KeyError> {
        match Self::parse(text) {
            Err(KeyError::NotAKey) => {}
            parsed => return parsed,
        }
        let content = read_text(Path::new(text), MAX_FILE);
        Self::parse(&content.map_err(|error| KeyError::Neither(text.to_owned(), error.to_string()))?)
    }

    /// Parses a key in any of its forms: PEM, its DER in base64, minisign's word or file, and the output of
    /// `to_string`.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        if ["PRIVATE KEY-----", "minisign encrypted secret key"].iter().any(|mark| text.contains(mark)) {
            return Err(KeyError::Secret);
        }
        if let Some((_, rest)) = text.split_once(PEM_BEGIN) {
            let (body, _) = rest.split_once(PEM_END).ok_or(KeyError::NotAKey)?;
            return Self::der(&decoded(body).ok_or(KeyError::NotAKey)?);
        }
        if let Some(word) = text.strip_prefix(COSIGN_SCHEME) {
            return Self::der(&decoded(word).ok_or(KeyError::NotAKey)?);
        }
        // minisign's file has a comment before the word.
        let last = text.lines().next_back().unwrap_or_default();
        let word = last.strip_prefix(MINISIGN_SCHEME).unwrap_or(last).trim();
        let bytes = decoded(word).ok_or(KeyError::NotAKey)?;
        match <[u8; MINISIGN]>::try_from(bytes.as_slice()) {
            Ok(key) if key.starts_with(b"Ed") => Ok(Self(Kind::Minisign(key))),
            _ if bytes.first() == Some(&0x30) => Self::der(&bytes),
            _ => Err(KeyError::NotAKey),
        }
    }

    fn der(der: &[u8]) -> Result<Self, KeyError> {
        let key = |prefix: &[u8]| der.strip_prefix(prefix).map(<[u8]>::len);
        if key(P256) == Some(P256_POINT) {
            return Ok(Self(Kind::P256(der.to_vec())));
        }
        if key(ED25519_PREFIX) == Some(ED25519_KEY) {
            return Ok(Self(Kind::Ed25519(der.to_vec())));
        }
        Err(KeyError::Unsupported)
    }

    /// Reports whether this key made cosign's `signature` over `message`; always false for a minisign key.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.0 {
            Kind::P256(der) => {
                let point = der.get(P256.len()..).unwrap_or_default();
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature).is_ok()
            }
            Kind::Ed25519(der) => {
                let key = der.get(ED25519_PREFIX.len()..).unwrap_or_default();
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
            }
            Kind::Minisign(_) => false,
        }
    }

    /// Returns the key in minisign's form, if it is a minisign key.
    pub(super) fn minisign(&self) -> Option<String> {
        match &self.0 {
            Kind::Minisign(key) => Some(STANDARD.encode(key)),
            Kind::P256(_) | Kind::Ed25519(_) => None,
        }
    }

    /// Describes the key, for messages: its kind and its fingerprint.
    pub fn describe(&self) -> String {
        match &self.0 {
            Kind::P256(der) => format!("the ECDSA P-256 key {}", fingerprint(der)),
            Kind::Ed25519(der) => format!("the Ed25519 key {}", fingerprint(der)),
            Kind::Minisign(key) => format!(
                "the minisign key {} ({})",
                identifier(key.get(2..10).unwrap_or_default()),
                fingerprint(key)
            ),
        }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::P256(der) | Kind::Ed25519(der) => write!(f, "{COSIGN_SCHEME}{}", STANDARD.encode(der)),
            Kind::Minisign(key) => write!(f, "{MINISIGN_SCHEME}{}", STANDARD.encode(key)),
        }
    }
}

/// Returns part of the key's digest for a person to compare. minisign's identifier is not sufficient: the key's
/// owner chooses it.
fn fingerprint(key: &[u8]) -> String {
    format!("sha256:{}", Digest::hash(key).hex().get(..16).unwrap_or_default())
}

/// Decodes base64 with line breaks.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let text: String = text.split_ascii_whitespace().collect();
    STANDARD.decode(text).ok()
}

/// Formats a key's identifier like minisign.
pub(super) fn identifier(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().rev().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key made by OpenSSL for this test; the private key was deleted.
    const PEM: &str = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
        -----END PUBLIC KEY-----\n";
    /// The key from minisign's documentation.
    const WORD: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

    #[test]
    fn a_key_is_read_in_each_of_its_forms() {
        let key = PublicKey::parse(PEM).unwrap();
        assert_eq!(PublicKey::parse(&key.to_string()).unwrap(), key);
        assert_eq!(
            PublicKey::parse("MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=").unwrap(),
            key
        );
        assert!(key.describe().starts_with("the Ed25519 key sha256:"), "{}", key.describe());
        let key = PublicKey::parse(WORD).unwrap();
        assert_eq!(key.to_string(), format!("minisign:{WORD}"));
        for form in [key.to_string(), format!("untrusted comment: minisign public key X\n{WORD}\n")] {
            assert_eq!(PublicKey::parse(&form).unwrap(), key);
        }
        assert!(key.describe().contains("E7620F1842B4E81F"), "{}", key.describe());
    }

    #[test]
    fn a_key_is_given_by_itself_or_by_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), PEM).unwrap();
        assert_eq!(PublicKey::from_argument(file.path().to_str().unwrap()), PublicKey::parse(PEM));
        assert_eq!(PublicKey::from_argument(WORD), PublicKey::parse(WORD));
        let error = PublicKey::from_argument("no/such/key").unwrap_err().to_string();
        assert!(error.starts_with("`no/such/key` is neither a public key nor a file with one"), "{error}");
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_reason() {
        let rsa = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----";
        for (text, expected) in [
            (rsa, KeyError::Unsupported),
            ("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----", KeyError::Secret),
            ("-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----", KeyError::NotAKey),
            ("-----BEGIN PUBLIC KEY-----", KeyError::NotAKey),
            ("", KeyError::NotAKey),
            ("RWQ", KeyError::NotAKey),
        ] {
            assert_eq!(PublicKey::parse(text), Err(expected), "{text}");
        }
    }
}
