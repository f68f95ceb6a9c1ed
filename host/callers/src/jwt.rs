//! Verifies a JSON Web Token: signed by its issuer's key with an algorithm that program.toml names, issued for this server,
//! good now. What is not understood is refused.

mod signature;

use std::time::Duration;

use haft_manifest::JwtAlgorithm;
use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header, get_current_timestamp};
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::signature::install;
use super::denied::Denied;
use super::keys::KeySet;
use super::rule::JwtRule;

/// Bytes of a token: those with many groups in them have a tenth.
const MAX_TOKEN: usize = 16 << 10;

/// Seconds that the clocks of the issuer and of this machine may differ.
const LEEWAY: u64 = 30;

/// What is read of a token's claims besides those that [`decode`] checks.
#[derive(Debug, Deserialize)]
struct Claims {
    exp: u64,
    #[serde(default)]
    sub: Option<String>,
    /// The scopes, in one text (RFC 9068) or, of some servers, a list.
    #[serde(default)]
    scope: Option<Value>,
    /// The same under the name that one vendor has for it.
    #[serde(default)]
    scp: Option<Value>,
    /// The key that whoever shows the token has to have (RFC 7800).
    #[serde(default)]
    cnf: Option<Value>,
}

/// What a token says before anything of it is believed.
#[derive(Debug)]
pub(crate) struct Unverified {
    header: Header,
    issuer: String,
}

/// A token that is good.
#[derive(Debug)]
pub(crate) struct Verified {
    pub(crate) subject: Option<String>,
    /// How long it is still good.
    pub(crate) left: Duration,
    scopes: Vec<String>,
}

#[derive(Deserialize)]
struct Issuer {
    iss: String,
}

impl Unverified {
    /// What `token` says of itself; `None` where it has not the form of one.
    pub(crate) fn read(token: &str) -> Option<Self> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let header = decode_header(token).ok()?;
        let Issuer { iss } = jsonwebtoken::dangerous::insecure_decode_claims(token).ok()?;
        Some(Self { header, issuer: iss })
    }

    /// Who it says has issued it.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The key that it says it is signed with.
    pub(crate) fn key_id(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    /// Whether it may be what `rule` means, as far as it can be told without a key.
    pub(crate) fn check(&self, rule: &JwtRule) -> Result<(), Denied> {
        if !rule.algorithms.iter().any(|own| algorithm(*own) == self.header.alg) {
            return Err(Denied::Invalid("it is signed with an algorithm that is not one of `algorithms`"));
        }
        if self.header.crit.is_some() {
            return Err(Denied::Invalid(
                "its header says that something in it must be understood, and it is not",
            ));
        }
        let kind = self.header.typ.as_deref().map(str::to_ascii_lowercase);
        match kind.as_deref() {
            None | Some("jwt" | "at+jwt" | "application/at+jwt") => Ok(()),
            Some(_) => Err(Denied::Invalid("its `typ` is not that of an access token")),
        }
    }

    /// The token, verified by one of `keys`.
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
            return Err(Denied::Invalid("it is bound to a key, which a bearer token does not show"));
        }
        if !rule.subjects.is_empty() && !claims.sub.as_ref().is_some_and(|sub| rule.subjects.contains(sub)) {
            return Err(Denied::Invalid("its `sub` is none of a caller here"));
        }
        let left = claims.exp.saturating_add(LEEWAY).saturating_sub(get_current_timestamp());
        let scopes = [&claims.scope, &claims.scp].into_iter().flatten().flat_map(words).collect();
        Ok(Verified { subject: claims.sub, left: Duration::from_secs(left), scopes })
    }
}

impl Verified {
    /// Whether it has all scopes that `rule` asks for.
    pub(crate) fn check_scopes(&self, rule: &JwtRule) -> Result<(), Denied> {
        let has = |scope: &String| self.scopes.contains(scope);
        if rule.scopes.iter().all(has) { Ok(()) } else { Err(Denied::Scope(rule.scopes.clone())) }
    }
}

/// The words of a scope.
fn words(scope: &Value) -> Vec<String> {
    match scope {
        Value::String(text) => text.split_ascii_whitespace().map(str::to_owned).collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// What is wrong with a token, without anything that it says.
fn denied(error: &jsonwebtoken::errors::Error) -> Denied {
    use jsonwebtoken::errors::ErrorKind;
    Denied::Invalid(match error.kind() {
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not good yet",
        ErrorKind::InvalidAudience => "its `aud` is not this server",
        ErrorKind::InvalidIssuer => "its `iss` is no issuer of this server's callers",
        ErrorKind::MissingRequiredClaim(_) => "it lacks one of `exp`, `iss` and `aud`",
        ErrorKind::InvalidSignature => "its signature is wrong",
        _ => "it is no JSON Web Token that can be verified",
    })
}

/// The same algorithm, as the library calls it.
fn algorithm(own: JwtAlgorithm) -> Algorithm {
    match own {
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
