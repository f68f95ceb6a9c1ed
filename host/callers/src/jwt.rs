//! Verifies a JSON Web Token: signed with its issuer's key and an algorithm that program.toml allows, issued for
//! this server, valid now. Rejects a token that requires an unsupported feature.

mod signature;

use std::time::Duration;

use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header, get_current_timestamp};
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::signature::install;
use super::JwtRule;
use super::caller::Denied;
use super::keys::KeySet;
use haft_manifest::JwtAlgorithm;

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
    issuer: String,
}

#[derive(Debug)]
pub(crate) struct Verified {
    pub(crate) subject: Option<String>,
    /// The remaining validity of the token.
    pub(crate) left: Duration,
    scopes: Vec<String>,
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

    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    pub(crate) fn key_id(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    /// Checks whether the token may satisfy `rule`, as far as possible without a key.
    pub(crate) fn check(&self, rule: &JwtRule) -> Result<(), Denied> {
        if !rule.algorithms.iter().any(|allowed| algorithm(*allowed) == self.header.alg) {
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

    /// Verifies the token with one of `keys`.
    pub(crate) fn verify(&self, token: &str, rule: &JwtRule, keys: &KeySet) -> Result<Verified, Denied> {
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
        let scopes = [&claims.scope, &claims.scp].into_iter().flatten().flat_map(words).collect();
        Ok(Verified { subject: claims.sub, left: Duration::from_secs(left), scopes })
    }
}

impl Verified {
    /// Checks that the token has all scopes that `rule` requires.
    pub(crate) fn check_scopes(&self, rule: &JwtRule) -> Result<(), Denied> {
        let has = |scope: &String| self.scopes.contains(scope);
        if rule.scopes.iter().all(has) { Ok(()) } else { Err(Denied::Scope(rule.scopes.clone())) }
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
fn denied(error: &jsonwebtoken::errors::Error) -> Denied {
    use jsonwebtoken::errors::ErrorKind;
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

/// Converts an algorithm to the library's type.
fn algorithm(allowed: JwtAlgorithm) -> Algorithm {
    match allowed {
        JwtAlgorithm::RS256 => Algorithm::RS256,
        JwtAlgorithm::RS384 => Algorithm::RS384,
        JwtAlgorithm::RS512 => Algorithm::RS512,
        JwtAlgorithm::PS256 => Algorithm::PS256,
        JwtAlgorithm::PS384 => Algorithm::PS384,
        JwtAlgorithm::PS512 => Algorithm::PS512,
        JwtAlgorithm::ES256 => Algorithm::ES256,
        JwtAlgorithm::ES384 => Algorithm::ES384,
        JwtAlgorithm::EdDSA => Algorithm::EdDSA,
    }
}
