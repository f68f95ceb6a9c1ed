//! A set of public keys (RFC 7517), and the selection of the key that verifies a token.

use std::str::FromStr;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// The maximum number of keys of a set. Issuers have a handful.
const MOST: usize = 128;

/// The keys of an issuer that can verify a signature.
#[derive(Debug)]
pub(crate) struct KeySet(Vec<PublicKey>);

#[derive(Debug)]
struct PublicKey {
    id: Option<String>,
    /// The only algorithm of the key, if it names one.
    algorithm: Option<String>,
    curve: Option<EllipticCurve>,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Written {
    keys: Vec<Value>,
}

impl KeySet {
    /// Parses the keys of `text`. Skips unknown keys and those with a shared secret.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let written: Written =
            serde_json::from_slice(text).map_err(|error| format!("no set of keys: {error}"))?;
        let keys: Vec<_> = written.keys.into_iter().take(MOST).filter_map(PublicKey::read).collect();
        if keys.is_empty() {
            Err("no public key in it can verify a signature".to_owned())
        } else {
            Ok(Self(keys))
        }
    }

    /// Whether a key has the id `id`.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.0.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// Returns the key with the id `id` for `algorithm`; without an id, the only key for it.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let is_meant = |key: &&PublicKey| id.is_none_or(|id| key.id.as_deref() == Some(id));
        let mut fitting = self.0.iter().filter(is_meant).filter(|key| key.fits(algorithm));
        let first = fitting.next()?;
        (id.is_some() || fitting.next().is_none()).then_some(&first.key)
    }
}

impl PublicKey {
    fn read(written: Value) -> Option<Self> {
        let algorithm = written.get("alg").and_then(Value::as_str).map(str::to_owned);
        let jwk: Jwk = serde_json::from_value(written).ok()?;
        let is_for_signatures = matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
        let curve = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => None,
            AlgorithmParameters::EllipticCurve(parameters) => Some(parameters.curve.clone()),
            AlgorithmParameters::OctetKeyPair(parameters) => Some(parameters.curve.clone()),
            _ => return None,
        };
        let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| is_for_signatures)?;
        Some(Self { id: jwk.common.key_id, algorithm, curve, key })
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        let is_named =
            self.algorithm.as_deref().is_none_or(|name| Algorithm::from_str(name).ok() == Some(algorithm));
        let family = match algorithm {
            Algorithm::ES256 => self.curve == Some(EllipticCurve::P256),
            Algorithm::ES384 => self.curve == Some(EllipticCurve::P384),
            Algorithm::EdDSA => self.curve == Some(EllipticCurve::Ed25519),
            _ => self.key.family() == AlgorithmFamily::Rsa && self.curve.is_none(),
        };
        is_named && family
    }
}
