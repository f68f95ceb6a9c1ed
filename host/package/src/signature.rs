//! The signatures of packages. Every signature is verified in this process, against a key that the user gave once;
//! a signature that was not verified here counts as none.
//!
//! # Schemes
//! | scheme | signs | keys | attached as |
//! |---|---|---|---|
//! | cosign | the digest of a manifest | ECDSA P-256, Ed25519 | the tag `sha256-….sig` or a Sigstore bundle, in the registry |
//! | minisign | a file | Ed25519 | `FILE.minisig` beside the file or its URL |
//! | keyless (Sigstore) | the digest of a manifest, of a tarball of npm, of a wheel of PyPI | no lasting key: a certificate names an identity | as for cosign; attestations of npm and PyPI |
//!
//! Folders and git repositories have no signatures. cosign and minisign do not embed the public key, so that
//! nothing can be verified without a key: the claims of a signature are then reported as claims, and nothing is
//! pinned. A keyless signature is verified with a [`TrustRoot`], without any network, and its identity is pinned.
//!
//! # Rules
//! | trusted | no signature | only signatures of others | a signature of the signer |
//! |---|---|---|---|
//! | nobody yet | reported as unsigned | a valid keyless one: verified; its identity is pinned. Others: reported with their claims, as not verified | – |
//! | the signer that the user names (`--key`, `signer`) | refused | refused | verified; the signer is pinned in program.lock |
//! | the pinned signer | refused: the last version was signed | refused, with both signers | verified |
//! | another signer that `--key` names instead of a pin | refused | refused | verified; the new signer is pinned |
//!
//! Another signer that only program.toml names instead of a pin is refused before anything is fetched.
//!
//! An invalid signature counts as one of another signer. Of several signatures, one of the signer is enough.

mod cosign;
mod identity;
mod key;
mod keyless;
mod minisign;
mod provider;

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

pub use self::identity::{Identity, SIGSTORE};
pub use self::key::{KeyError, PublicKey};
pub use self::keyless::TrustRoot;
pub(crate) use self::keyless::{MAX_DOCUMENT, of_npm, of_pypi};
use super::Digest;

/// Limit on the checked signatures of one package; further ones are ignored.
pub(crate) const MAX_STATEMENTS: usize = 32;
/// Limit on the bytes of one statement: ten times a statement with a certificate and a log's inclusion proof.
pub(crate) const MAX_STATEMENT: u64 = 256 << 10;

/// The suffix of a signature file's name.
pub(crate) const BESIDE: &str = ".minisig";
/// Limit on the bytes of a signature file: ten times a file with the longest comments of minisign.
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
        /// The entry of the transparency log, in JSON, for a keyless signature.
        entry: Option<String>,
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
    /// A file that a package manager fetched, by its SHA-256 digest.
    Sha256(&'a [u8]),
    /// A file that a package manager fetched, by its SHA-512 digest.
    Sha512(&'a [u8]),
}

/// The required signer.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// No required signer: the publisher is unknown.
    #[default]
    Nobody,
    /// The signer that the user named.
    Named(Signer),
    /// The signer that was pinned before.
    Pinned(Signer),
}

/// A verified signer. Written as one word, such as `minisign:RW…`, `cosign:MFkw…` or `sigstore:ISSUER#SUBJECT`, and
/// parsed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signer {
    /// The owner of a key.
    Key(PublicKey),
    /// An identity that a certificate names.
    Identity(Identity),
}

/// The result of a signature check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The package has no signature.
    #[default]
    Unsigned,
    /// A signature was verified.
    Signed(Signer),
    /// The package has signatures but no key to verify them with: the claims of each, for display.
    Unchecked(Vec<String>),
}

/// Reasons why a required signature is missing or invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The package has no signature.
    #[error("it is not signed; {0}")]
    Unsigned(String),
    /// The package has only signatures by other keys.
    #[error("it has no valid signature; {expected}: found {}", found.join("; "))]
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
            _ => "ask the publisher; if the key or identity has changed, pass the new one with `--key`",
        }
    }
}

impl Trust {
    /// Returns the required signer and the reason for it, for messages.
    fn expected(&self) -> Option<(&Signer, String)> {
        match self {
            Self::Nobody => None,
            Self::Named(signer) => Some((signer, format!("you require one {}", signer.describe()))),
            Self::Pinned(signer) => {
                Some((signer, format!("the installed content is signed {}", signer.describe())))
            }
        }
    }
}

impl Signer {
    /// Parses an argument: the signer itself, or the path of a file with a public key.
    ///
    /// # Errors
    /// The text is neither.
    pub fn from_argument(text: &str) -> Result<Self, KeyError> {
        if text.starts_with(SIGSTORE) { text.parse() } else { PublicKey::from_argument(text).map(Self::Key) }
    }

    /// Reports whether content that `pinned` signed is signed as this signer requires.
    pub fn admits(&self, pinned: &Self) -> bool {
        match (self, pinned) {
            (Self::Identity(required), Self::Identity(pinned)) => required.admits(pinned),
            _ => self == pinned,
        }
    }

    /// Describes the signer, for messages: the text after "signed".
    pub fn describe(&self) -> String {
        match self {
            Self::Key(key) => format!("with {}", key.describe()),
            Self::Identity(identity) => format!("by {}", identity.describe()),
        }
    }
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => key.fmt(f),
            Self::Identity(identity) => identity.fmt(f),
        }
    }
}

impl FromStr for Signer {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text.strip_prefix(SIGSTORE) {
            Some(rest) => Identity::parse(rest).map(Self::Identity).ok_or(KeyError::NotAnIdentity),
            None => PublicKey::parse(text).map(Self::Key),
        }
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
            Self::Signed(signer) => format!("signed {}", signer.describe()),
            Self::Unchecked(claims) => format!("claims a signature {}", claims.join("; ")),
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

/// Returns the downloaded bytes as a signature, if they have this form.
pub(super) fn text_beside(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    // A server may send an HTML page with a status of success for a missing file.
    let is_signature = text.len() <= MAX_BESIDE && text.starts_with("untrusted comment:");
    is_signature.then_some(text)
}

/// Checks the signature beside a file, if there is one, against the trusted signer.
pub(crate) fn judge_beside(file: &Path, trust: &Trust, root: &TrustRoot) -> Result<Verdict, SignatureError> {
    let statements: Vec<_> = beside(file)?.map(Statement::Minisign).into_iter().collect();
    judge(&statements, Subject::File(file), trust, root)
}

/// Checks the statements against the trusted signer, by the table of the module. `root` decides about keyless ones.
pub(crate) fn judge(
    statements: &[Statement],
    subject: Subject<'_>,
    trust: &Trust,
    root: &TrustRoot,
) -> Result<Verdict, SignatureError> {
    let statements = statements.get(..MAX_STATEMENTS).unwrap_or(statements);
    let Some((signer, expected)) = trust.expected() else {
        return Ok(without_signer(statements, subject, root));
    };
    let mut found = Vec::new();
    for statement in statements {
        match verify(statement, subject, signer, root)? {
            Ok(()) => return Ok(Verdict::Signed(signer.clone())),
            Err(why) => found.push(format!("one {}: {why}", claim(statement))),
        }
    }
    Err(if found.is_empty() {
        SignatureError::Unsigned(expected)
    } else {
        SignatureError::Other { expected, found }
    })
}

/// Checks the signatures that need no required signer: keyless ones.
fn without_signer(statements: &[Statement], subject: Subject<'_>, root: &TrustRoot) -> Verdict {
    let mut claims = Vec::new();
    for statement in statements {
        match keyless::verify(statement, subject, root) {
            Some(Ok(identity)) => return Verdict::Signed(Signer::Identity(identity.lasting())),
            Some(Err(why)) => claims.push(format!("{}, which is invalid: {why}", claim(statement))),
            None => {
                claims.push(format!("{}, which is not checked without the key: `--key`", claim(statement)));
            }
        }
    }
    if claims.is_empty() { Verdict::Unsigned } else { Verdict::Unchecked(claims) }
}

fn claim(statement: &Statement) -> String {
    match statement {
        Statement::Cosign { certificate: Some(certificate), .. } => cosign::claim_of_pem(certificate),
        Statement::Cosign { .. } => "with a key for cosign".to_owned(),
        Statement::Bundle(bytes) => cosign::claim_of_bundle(bytes),
        Statement::Minisign(text) => minisign::claim(text),
    }
}

/// Verifies that the signer signed this subject; returns the reason if not.
fn verify(
    statement: &Statement,
    subject: Subject<'_>,
    signer: &Signer,
    root: &TrustRoot,
) -> Result<Result<(), String>, SignatureError> {
    let key = match signer {
        Signer::Key(key) => key,
        Signer::Identity(identity) => {
            let verified = keyless::verify(statement, subject, root);
            let verified = verified.unwrap_or_else(|| Err("it is not a keyless signature".to_owned()));
            return Ok(verified.and_then(|found| {
                if identity.admits(&found) { Ok(()) } else { Err(format!("it is by {}", found.describe())) }
            }));
        }
    };
    match (statement, subject) {
        (Statement::Cosign { payload, signature, .. }, Subject::Manifest(digest)) => {
            Ok(cosign::verify(payload, signature, digest, key))
        }
        (Statement::Bundle(bytes), Subject::Manifest(digest)) => {
            Ok(cosign::verify_bundle(bytes, digest, key))
        }
        (Statement::Minisign(text), Subject::File(path)) => minisign::verify(text, path, key),
        _ => Ok(Err("it signs other content".to_owned())),
    }
}

#[cfg(test)]
mod tests;
