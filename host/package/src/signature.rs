//! Who signed a package. Everything is verified in this process, against a key that a person gave
//! once; it refuses to call anything signed that it has not verified itself.
//!
//! # What counts
//! | scheme | signs | keys | attached as |
//! |---|---|---|---|
//! | cosign | the digest of a manifest | ECDSA P-256, Ed25519 | the tag `sha256-….sig` or a Sigstore bundle, in the registry |
//! | minisign | a file | Ed25519 | `FILE.minisig` beside the file or its address |
//! | keyless | the digest of a manifest | none of the signer's own | recognised and reported, never verified |
//!
//! A folder and a git repository carry no signature. None of the schemes carries the key it was
//! made with, so that without a key there is nothing to check: then what a signature says of itself
//! is told as just that, and nothing is pinned.
//!
//! # What follows
//! | trusted | no signature | signatures, none by the key | one by the key |
//! |---|---|---|---|
//! | nobody yet | said to be unsigned | told who they say it was, and that it was not checked | – |
//! | `--key KEY` | refused | refused | verified; the key is pinned in program.lock |
//! | the pinned key | refused: it was signed before | refused, with both keys | verified |
//! | `--key` in place of a pin | refused | refused | verified; the new key is pinned |
//!
//! A signature that is there and broken counts as none by the key. Several signatures are as good
//! as the best of them.

mod bundle;
mod certificate;
mod cosign;
mod key;
mod minisign;

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

pub use self::key::{KeyError, PublicKey};
use super::Digest;

/// Statements of one package that are checked. More signatures are ignored.
pub(crate) const MAX_STATEMENTS: usize = 32;
/// Bytes of one statement: ten times one with a certificate and a log's inclusion proof.
pub(crate) const MAX_STATEMENT: u64 = 256 << 10;

/// What a file's name and its signature's differ by.
pub(crate) const BESIDE: &str = ".minisig";
/// Bytes of such a signature: ten times the longest comments that minisign writes.
pub(crate) const MAX_BESIDE: usize = 8 << 10;

/// A claim that a package is signed. Neither parsed nor verified yet.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    /// What `cosign sign` pushes beside a manifest.
    Cosign {
        /// What was signed: it names the manifest.
        payload: Vec<u8>,
        /// The signature, in base64.
        signature: String,
        /// A certificate in PEM, where no key of the signer's own was used.
        certificate: Option<String>,
    },
    /// A Sigstore bundle, in JSON.
    Bundle(Vec<u8>),
    /// A `.minisig` file.
    Minisign(String),
}

/// What is said to be signed.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A manifest in a registry.
    Manifest(&'a Digest),
    /// A file.
    File(&'a Path),
}

/// The signer that is required.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// None in particular: the publisher is unknown.
    #[default]
    Nobody,
    /// Made with the key that a person gave.
    Named(PublicKey),
    /// Made with the key that was pinned before.
    Pinned(Signer),
}

/// Who signed something: the key, which was verified when this was made. Written as one word,
/// such as `minisign:RW…` or `cosign:MFkw…`, and read back from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer(PublicKey);

/// What is known of a package's signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There are none.
    Unsigned,
    /// One was verified.
    Signed(Signer),
    /// There are some that nothing is known to verify with: what each says of itself, for people.
    Unchecked(Vec<String>),
}

/// Why a package is not signed as it has to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature at all.
    #[error("it is not signed, and {0}")]
    Unsigned(String),
    /// There are others.
    #[error("none of its signatures is right, and {expected}: found {}", found.join("; "))]
    Other {
        /// What was wanted, and why.
        expected: String,
        /// What each says of itself, and what is wrong with it.
        found: Vec<String>,
    },
    /// The file could not be read.
    #[error("cannot read `{path}` to verify it: {error}")]
    Read {
        /// The file.
        path: String,
        /// Why not.
        error: String,
    },
}

impl SignatureError {
    /// The way out.
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
    /// The key that is wanted, and why, for people.
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
    /// The key.
    pub fn key(&self) -> &PublicKey {
        &self.0
    }

    /// In a few words, for people.
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
    /// The signer, if it was verified.
    pub fn signer(&self) -> Option<&Signer> {
        match self {
            Self::Signed(signer) => Some(signer),
            Self::Unsigned | Self::Unchecked(_) => None,
        }
    }

    /// One line for a person about to decide.
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

/// The signature that lies beside a file, if there is one.
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

/// What came as a signature, if it can be one.
pub(super) fn text_beside(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    // A server that says "not found" with a page and a status of success.
    let is_signature = text.len() <= MAX_BESIDE && text.starts_with("untrusted comment:");
    is_signature.then_some(text)
}

/// Judges what was found with a package by what is trusted: the table above.
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

/// What a statement says of who made it.
fn claim(statement: &Statement) -> String {
    match statement {
        Statement::Cosign { certificate: Some(certificate), .. } => certificate::claim_of_pem(certificate),
        Statement::Cosign { .. } => "with a key for cosign".to_owned(),
        Statement::Bundle(bytes) => bundle::claim(bytes),
        Statement::Minisign(text) => minisign::claim(text),
    }
}

/// Whether the statement was made with this key about this subject; if not, why not.
fn verify(
    statement: &Statement,
    subject: Subject<'_>,
    key: &PublicKey,
) -> Result<Result<(), String>, SignatureError> {
    match (statement, subject) {
        (Statement::Cosign { payload, signature, .. }, Subject::Manifest(digest)) => {
            Ok(cosign::verify(payload, signature, digest, key))
        }
        (Statement::Bundle(bytes), Subject::Manifest(digest)) => Ok(bundle::verify(bytes, digest, key)),
        (Statement::Minisign(text), Subject::File(path)) => minisign::verify(text, path, key),
        _ => Ok(Err("it is about something else".to_owned())),
    }
}

#[cfg(test)]
mod tests;
