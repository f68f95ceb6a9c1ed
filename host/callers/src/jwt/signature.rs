//! Verifies the signatures of JSON Web Tokens with `ring`. Signs nothing, and supports no algorithm with a shared
//! secret, so that a public key can never be used as one.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature as ring_signature;
use ring::signature::{RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};

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
