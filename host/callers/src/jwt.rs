//! Verifies a JSON Web Token: signed with its issuer's key and an algorithm that program.toml allows, issued for
//! this server, valid now. Rejects a token that requires an unsupported feature.

use std::str::FromStr;
use std::time::Duration;

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey, Header, Validation};
use jsonwebtoken::{decode, decode_header, get_current_timestamp};
use ring::signature as ring_signature;
use ring::signature::{RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;
use serde_json::Value;

use super::caller::Denied;
use super::keys::KeySet;
use haft_manifest::JwtTable;

/// The maximum size of a token in bytes: ten times that of a token with many groups.
const MAX_TOKEN: usize = 16 << 10;

/// The accepted clock difference between the issuer and this machine in seconds.
const LEEWAY: u64 = 30;

/// The claims besides those that [`decode`] checks.
#[derive(Debug, Deserialize)]
struct Claims {
    exp: u64,
    #[serde(default)]
    sub: Option<String>,
    /// The scopes, in one text (RFC 9068) or, for some servers, a list.
    #[serde(default)]
    scope: Option<Value>,
    /// The scopes under the name of one vendor.
    #[serde(default)]
    scp: Option<Value>,
    /// The key that the presenter must possess (RFC 7800).
    #[serde(default)]
    cnf: Option<Value>,
}

/// The unverified content of a token.
#[derive(Debug)]
pub(crate) struct Unverified {
    header: Header,
    pub(crate) issuer: String,
}

#[derive(Debug)]
pub(crate) struct Verified {
    pub(crate) subject: Option<String>,
    /// The remaining validity of the token.
    pub(crate) left: Duration,
}

#[derive(Deserialize)]
struct Issuer {
    iss: String,
}

impl Unverified {
    /// Reads `token`; `None` if it is malformed.
    pub(crate) fn read(token: &str) -> Option<Self> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let header = decode_header(token).ok()?;
        let Issuer { iss } = jsonwebtoken::dangerous::insecure_decode_claims(token).ok()?;
        Some(Self { header, issuer: iss })
    }

    pub(crate) fn key_id(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    /// Checks whether the token may satisfy `rule`, as far as possible without a key.
    pub(crate) fn check(&self, rule: &JwtTable) -> Result<(), Denied> {
        let own = Ok(self.header.alg);
        if !rule.algorithms.iter().any(|allowed| Algorithm::from_str(allowed.as_str()) == own) {
            return Err(Denied::Invalid("it is signed with an algorithm that is not one of `algorithms`"));
        }
        if self.header.crit.is_some() {
            return Err(Denied::Invalid("its header has a `crit` parameter that is not supported"));
        }
        let kind = self.header.typ.as_deref().map(str::to_ascii_lowercase);
        match kind.as_deref() {
            None | Some("jwt" | "at+jwt" | "application/at+jwt") => Ok(()),
            Some(_) => Err(Denied::Invalid("its `typ` is not that of an access token")),
        }
    }

    /// Verifies the token with one of `keys`, and that it has all scopes that `rule` requires.
    pub(crate) fn verify(&self, token: &str, rule: &JwtTable, keys: &KeySet) -> Result<Verified, Denied> {
        let key = keys
            .find(self.key_id(), self.header.alg)
            .ok_or(Denied::Invalid("it is not signed with a key of its issuer"))?;
        let mut validation = Validation::new(self.header.alg);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_issuer(&[&rule.issuer]);
        validation.set_audience(&[&rule.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let claims = decode::<Claims>(token, key, &validation).map_err(|error| denied(&error))?.claims;
        if claims.cnf.is_some() {
            return Err(Denied::Invalid("it is bound to a key; a bearer token proves no key"));
        }
        if !rule.subjects.is_empty() && !claims.sub.as_ref().is_some_and(|sub| rule.subjects.contains(sub)) {
            return Err(Denied::Invalid("its `sub` belongs to no caller here"));
        }
        let left = claims.exp.saturating_add(LEEWAY).saturating_sub(get_current_timestamp());
        let scopes: Vec<_> = [&claims.scope, &claims.scp].into_iter().flatten().flat_map(words).collect();
        if !rule.scopes.iter().all(|scope| scopes.contains(scope)) {
            return Err(Denied::Scope(rule.scopes.clone()));
        }
        Ok(Verified { subject: claims.sub, left: Duration::from_secs(left) })
    }
}

fn words(scope: &Value) -> Vec<String> {
    match scope {
        Value::String(text) => text.split_ascii_whitespace().map(str::to_owned).collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Converts an error without repeating content of the token.
fn denied(error: &Error) -> Denied {
    Denied::Invalid(match error.kind() {
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidAudience => "its `aud` is not this server",
        ErrorKind::InvalidIssuer => "its `iss` is not an issuer of this server's callers",
        ErrorKind::MissingRequiredClaim(_) => "it lacks one of `exp`, `iss` and `aud`",
        ErrorKind::InvalidSignature => "its signature is wrong",
        _ => "it is not a JSON Web Token that can be verified",
    })
}

// Verifies signatures with `ring`. Signs nothing, and supports no algorithm with a shared secret, so that a public key can
// never be used as one.

/// The verification of signatures.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs the verification in the library. If a program that embeds haft has installed another verification,
/// that is used.
pub(crate) fn install() {
    let _ = PROVIDER.install_default();
}

/// A key that verifies signatures of one algorithm.
struct RingVerifier {
    algorithm: Algorithm,
    key: Key,
}

enum Key {
    Rsa(&'static RsaParameters, RsaPublicKeyComponents<Vec<u8>>),
    Bytes(UnparsedPublicKey<Vec<u8>>),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the library hands out references")]
fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the library hands out references")]
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let key = match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, e } => {
            Key::Rsa(rsa(*algorithm)?, RsaPublicKeyComponents { n: n.clone(), e: e.clone() })
        }
        DecodingKeyKind::SecretOrDer(bytes) if key.family() == algorithm.family() => {
            Key::Bytes(UnparsedPublicKey::new(curve(*algorithm)?, bytes.clone()))
        }
        DecodingKeyKind::SecretOrDer(_) => return Err(ErrorKind::InvalidAlgorithm.into()),
    };
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key }))
}

fn rsa(algorithm: Algorithm) -> Result<&'static RsaParameters, Error> {
    Ok(match algorithm {
        Algorithm::RS256 => &ring_signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &ring_signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &ring_signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &ring_signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &ring_signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &ring_signature::RSA_PSS_2048_8192_SHA512,
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    })
}

fn curve(algorithm: Algorithm) -> Result<&'static dyn VerificationAlgorithm, Error> {
    Ok(match algorithm {
        Algorithm::ES256 => &ring_signature::ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &ring_signature::ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &ring_signature::ED25519,
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    })
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match &self.key {
            Key::Rsa(parameters, key) => key.verify(parameters, message, signature),
            Key::Bytes(key) => key.verify(message, signature),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
