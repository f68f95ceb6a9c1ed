//! The signatures of packages. Every signature is verified in this process, against a key that the user gave
//! once; nothing counts as signed that was not verified here.
//!
//! # Schemes
//! | scheme | signs | keys | attached as |
//! |---|---|---|---|
//! | cosign | the digest of a manifest | ECDSA P-256, Ed25519 | the tag `sha256-….sig` or a Sigstore bundle, in the registry |
//! | minisign | a file | Ed25519 | `FILE.minisig` beside the file or its URL |
//! | keyless | the digest of a manifest | no key of the signer | recognised and reported, never verified |
//!
//! Folders and git repositories have no signatures. None of the schemes embeds the public key, so that nothing
//! can be verified without a key: then the claims of a signature are reported as claims, and nothing is pinned.
//!
//! # Rules
//! | trusted | no signature | signatures, none by the key | one by the key |
//! |---|---|---|---|
//! | nobody yet | reported as unsigned | reported with its claims, as not verified | – |
//! | `--key KEY` | refused | refused | verified; the key is pinned in program.lock |
//! | the pinned key | refused: it was signed before | refused, with both keys | verified |
//! | `--key` in place of a pin | refused | refused | verified; the new key is pinned |
//!
//! An invalid signature counts as one by another key. Of several signatures, one by the key is enough.

mod cosign;
mod key;
mod minisign;

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

pub use self::key::{KeyError, PublicKey};
use super::Digest;

/// Limit on the signatures of one package that are checked; further ones are ignored.
pub(crate) const MAX_STATEMENTS: usize = 32;
/// Limit on the bytes of one statement: ten times one with a certificate and a log's inclusion proof.
pub(crate) const MAX_STATEMENT: u64 = 256 << 10;

/// The suffix of a signature file's name.
pub(crate) const BESIDE: &str = ".minisig";
/// Limit on the bytes of a signature file: ten times one with the longest comments that minisign writes.
pub(crate) const MAX_BESIDE: usize = 8 << 10;

/// A claim that a package is signed, neither parsed nor verified.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    /// A signature that `cosign sign` pushed beside a manifest.
    Cosign {
        /// The signed payload, which names the manifest.
        payload: Vec<u8>,
        /// The signature, in base64.
        signature: String,
        /// The certificate in PEM, for a keyless signature.
        certificate: Option<String>,
    },
    /// A Sigstore bundle, in JSON.
    Bundle(Vec<u8>),
    /// A `.minisig` file.
    Minisign(String),
}

/// The subject of a signature.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A manifest in a registry.
    Manifest(&'a Digest),
    /// A file.
    File(&'a Path),
}

/// The required signer.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// No required signer: the publisher is unknown.
    #[default]
    Nobody,
    /// The key that the user gave.
    Named(PublicKey),
    /// The key that was pinned before.
    Pinned(Signer),
}

/// A verified signer, identified by its key. Written as one word, such as `minisign:RW…` or `cosign:MFkw…`, and
/// parsed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer(PublicKey);

/// The result of a signature check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There are no signatures.
    Unsigned,
    /// A signature was verified.
    Signed(Signer),
    /// There are signatures but no key to verify them with: the claims of each, for display.
    Unchecked(Vec<String>),
}

/// Reasons why a required signature is missing or invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature.
    #[error("it is not signed, and {0}")]
    Unsigned(String),
    /// There are only signatures by other keys.
    #[error("none of its signatures is right, and {expected}: found {}", found.join("; "))]
    Other {
        /// The required key and the reason for it.
        expected: String,
        /// The claims of each signature, and its error.
        found: Vec<String>,
    },
    /// The file to verify cannot be read.
    #[error("cannot read `{path}` to verify it: {error}")]
    Read {
        /// The file.
        path: String,
        /// The error of the read.
        error: String,
    },
}

impl SignatureError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } => "check that it can be read",
            _ => {
                "ask whoever publishes it; where they have another key, `--key KEY` with the one that they give \
                 you takes its place"
            }
        }
    }
}

impl Trust {
    /// Returns the required key and the reason for it, for messages.
    fn expected(&self) -> Option<(&PublicKey, String)> {
        match self {
            Self::Nobody => None,
            Self::Named(key) => Some((key, format!("`--key` asks for {}", key.describe()))),
            Self::Pinned(Signer(key)) => {
                Some((key, format!("what is installed was signed with {}", key.describe())))
            }
        }
    }
}

impl Signer {
    /// Returns the key.
    pub fn key(&self) -> &PublicKey {
        &self.0
    }

    /// Describes the key, for messages.
    pub fn describe(&self) -> String {
        self.0.describe()
    }
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Signer {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        PublicKey::parse(text).map(Self)
    }
}

impl Verdict {
    /// Returns the verified signer.
    pub fn signer(&self) -> Option<&Signer> {
        match self {
            Self::Signed(signer) => Some(signer),
            Self::Unsigned | Self::Unchecked(_) => None,
        }
    }

    /// Describes the result in one line, for consent.
    pub fn describe(&self) -> String {
        match self {
            Self::Unsigned => "not signed".to_owned(),
            Self::Signed(signer) => format!("signed with {}", signer.describe()),
            Self::Unchecked(claims) => {
                format!(
                    "says it is signed {}, which is not checked without the key: `--key`",
                    claims.join("; ")
                )
            }
        }
    }
}

/// Reads the signature beside a file, if there is one.
pub(crate) fn beside(file: &Path) -> Result<Option<String>, SignatureError> {
    let mut path = file.as_os_str().to_owned();
    path.push(BESIDE);
    let read = |path: &Path| -> std::io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let file = std::fs::File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(std::io::Error::other("expected a file"));
        }
        file.take(MAX_BESIDE as u64 + 1).read_to_end(&mut text)?;
        Ok(text)
    };
    match read(Path::new(&path)) {
        Ok(text) => Ok(text_beside(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let path = Path::new(&path).display().to_string();
            Err(SignatureError::Read { path, error: error.to_string() })
        }
    }
}

/// Returns the downloaded bytes as a signature, if they have the form of one.
pub(super) fn text_beside(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    // A server may send an HTML page with a status of success for a missing file.
    let is_signature = text.len() <= MAX_BESIDE && text.starts_with("untrusted comment:");
    is_signature.then_some(text)
}

/// Checks the statements against the trusted key, by the table of the module.
pub(crate) fn judge(
    statements: &[Statement],
    subject: Subject<'_>,
    trust: &Trust,
) -> Result<Verdict, SignatureError> {
    let statements = statements.get(..MAX_STATEMENTS).unwrap_or(statements);
    let Some((key, expected)) = trust.expected() else {
        let claims: Vec<String> = statements.iter().map(claim).collect();
        return Ok(if claims.is_empty() { Verdict::Unsigned } else { Verdict::Unchecked(claims) });
    };
    let mut found = Vec::new();
    for statement in statements {
        match verify(statement, subject, key)? {
            Ok(()) => return Ok(Verdict::Signed(Signer(key.clone()))),
            Err(why) => found.push(format!("one {}: {why}", claim(statement))),
        }
    }
    Err(if found.is_empty() {
        SignatureError::Unsigned(expected)
    } else {
        SignatureError::Other { expected, found }
    })
}

/// Returns the claims of a statement about its signer.
fn claim(statement: &Statement) -> String {
    match statement {
        Statement::Cosign { certificate: Some(certificate), .. } => cosign::claim_of_pem(certificate),
        Statement::Cosign { .. } => "with a key for cosign".to_owned(),
        Statement::Bundle(bytes) => cosign::claim_of_bundle(bytes),
        Statement::Minisign(text) => minisign::claim(text),
    }
}

/// Verifies that the key signed this subject; returns the reason if not.
fn verify(
    statement: &Statement,
    subject: Subject<'_>,
    key: &PublicKey,
) -> Result<Result<(), String>, SignatureError> {
    match (statement, subject) {
        (Statement::Cosign { payload, signature, .. }, Subject::Manifest(digest)) => {
            Ok(cosign::verify(payload, signature, digest, key))
        }
        (Statement::Bundle(bytes), Subject::Manifest(digest)) => {
            Ok(cosign::verify_bundle(bytes, digest, key))
        }
        (Statement::Minisign(text), Subject::File(path)) => minisign::verify(text, path, key),
        _ => Ok(Err("it is about something else".to_owned())),
    }
}

#[cfg(test)]
mod tests;
