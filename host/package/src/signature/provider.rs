//! The cryptography provider of Sigstore's verifier, implemented with `ring`, which haft uses anyway. Verifies
//! only.

use std::cell::RefCell;

use ring::digest::{self, Context, SHA256, SHA384, SHA512};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, UnparsedPublicKey,
    VerificationAlgorithm,
};
use sigstore_verify::crypto::{
    CryptoProvider, Error, HashContext, Result, SigningScheme, install_default_provider,
};
use sigstore_verify::types::HashAlgorithm;

thread_local! {
    /// The message of the signature that this thread verifies: `ring` verifies no signature of a digest alone.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
struct Ring;

struct Hashing(Context);

/// Runs `work`, which verifies a signature of `message`.
pub(super) fn verifying<T>(message: &[u8], work: impl FnOnce() -> T) -> T {
    // Every call but the first one fails.
    let _ = install_default_provider(&Ring);
    MESSAGE.set(message.to_vec());
    let done = work();
    MESSAGE.take();
    done
}

impl HashContext for Hashing {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

impl CryptoProvider for Ring {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>> {
        let algorithm = match algorithm {
            HashAlgorithm::Sha2256 => &SHA256,
            HashAlgorithm::Sha2384 => &SHA384,
            HashAlgorithm::Sha2512 => &SHA512,
            other => return Err(unsupported(&other)),
        };
        Ok(Box::new(Hashing(Context::new(algorithm))))
    }

    fn verify_raw(&self, scheme: SigningScheme, key: &[u8], data: &[u8], signature: &[u8]) -> Result<()> {
        let key = UnparsedPublicKey::new(algorithm(scheme)?, key);
        key.verify(data, signature)
            .map_err(|_| Error::Verification("the signature is not by this key".to_owned()))
    }

    fn verify_prehashed(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        digest: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        let hash = match scheme.hash_algorithm() {
            Some(HashAlgorithm::Sha2256) => &SHA256,
            Some(HashAlgorithm::Sha2384) => &SHA384,
            _ => &SHA512,
        };
        MESSAGE.with_borrow(|message| {
            if digest::digest(hash, message).as_ref() != digest {
                return Err(Error::Verification("the signed content is incomplete".to_owned()));
            }
            self.verify_raw(scheme, key, message, signature)
        })
    }
}

fn algorithm(scheme: SigningScheme) -> Result<&'static dyn VerificationAlgorithm> {
    Ok(match scheme {
        SigningScheme::EcdsaP256Sha256 => &ECDSA_P256_SHA256_ASN1,
        SigningScheme::EcdsaP256Sha384 => &ECDSA_P256_SHA384_ASN1,
        SigningScheme::EcdsaP384Sha256 => &ECDSA_P384_SHA256_ASN1,
        SigningScheme::EcdsaP384Sha384 => &ECDSA_P384_SHA384_ASN1,
        SigningScheme::Ed25519 => &ED25519,
        SigningScheme::RsaPkcs1Sha256 => &RSA_PKCS1_2048_8192_SHA256,
        SigningScheme::RsaPkcs1Sha384 => &RSA_PKCS1_2048_8192_SHA384,
        SigningScheme::RsaPkcs1Sha512 => &RSA_PKCS1_2048_8192_SHA512,
        SigningScheme::RsaPssSha256 => &RSA_PSS_2048_8192_SHA256,
        SigningScheme::RsaPssSha384 => &RSA_PSS_2048_8192_SHA384,
        SigningScheme::RsaPssSha512 => &RSA_PSS_2048_8192_SHA512,
        other => return Err(unsupported(&other)),
    })
}

fn unsupported(algorithm: &dyn std::fmt::Debug) -> Error {
    Error::UnsupportedAlgorithm(format!("{algorithm:?}"))
}
