//! Signatures that the registry stores beside their subject.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haft::package::oci::COMPONENT;
use haft::package::signature::{PublicKey, Signer, Trust, Verdict};
use haft::package::{Digest, FetchError};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use super::fake::Fake;
use super::{EMPTY, Place, access};
use crate::common::sigstore::BUNDLE;

/// The start of a public key in DER, before its bytes.
const P256: &str = "3059301306072a8648ce3d020106082a8648ce3d030107034200";
const ED25519: &str = "302a300506032b6570032100";

/// A key pair in cosign's formats.
pub(crate) enum Pair {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Pair {
    pub(crate) fn p256() -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random);
        Self::P256(pair.unwrap())
    }

    pub(crate) fn ed25519() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    fn sign(&self, message: &[u8]) -> String {
        match self {
            Self::P256(pair) => STANDARD.encode(pair.sign(&SystemRandom::new(), message).unwrap()),
            Self::Ed25519(pair) => STANDARD.encode(pair.sign(message)),
        }
    }

    pub(crate) fn public(&self) -> PublicKey {
        let (prefix, key) = match self {
            Self::P256(pair) => (P256, pair.public_key().as_ref()),
            Self::Ed25519(pair) => (ED25519, pair.public_key().as_ref()),
        };
        let prefix =
            (0..prefix.len()).step_by(2).map(|at| u8::from_str_radix(&prefix[at..at + 2], 16).unwrap());
        PublicKey::parse(&STANDARD.encode(prefix.chain(key.iter().copied()).collect::<Vec<_>>())).unwrap()
    }
}

pub(super) fn tag(digest: &Digest, suffix: &str) -> String {
    format!("{}{suffix}", digest.to_string().replace(':', "-"))
}

/// Signs `subject` as `cosign sign --key` does; the payload names `about`.
fn sign(fake: &Fake, subject: &Digest, about: &Digest, pairs: &[&Pair]) {
    let payload = json!({ "critical": {
        "identity": { "docker-reference": "a/b" },
        "image": { "docker-manifest-digest": about.to_string() },
        "type": "cosign container image signature" }, "optional": null });
    let payload = payload.to_string();
    let layer = |pair: &&Pair| {
        let annotations = json!({ "dev.cosignproject.cosign/signature": pair.sign(payload.as_bytes()) });
        json!({ "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json", "digest": fake.blob(payload.as_bytes()),
            "size": payload.len(), "annotations": annotations })
    };
    let config = json!({ "mediaType": "application/vnd.oci.image.config.v1+json", "digest": fake.blob(b"{}"), "size": 2 });
    let layers: Vec<Value> = pairs.iter().map(layer).collect();
    fake.manifest(&tag(subject, ".sig"), &json!({ "schemaVersion": 2, "config": config, "layers": layers }));
}

/// Attaches a bundle as newer versions of cosign do if the registry has no list of referrers.
fn bundle(fake: &Fake, subject: &Digest, material: &Value, predicate: &str, pair: &Pair) {
    let statement = json!({ "_type": "https://in-toto.io/Statement/v1", "predicateType": predicate,
        "subject": [{ "name": "", "digest": { "sha256": subject.hex() } }], "predicate": {} });
    let payload = statement.to_string();
    let signed = format!("DSSEv1 28 application/vnd.in-toto+json {} {payload}", payload.len());
    let bundle = json!({ "mediaType": BUNDLE, "verificationMaterial": material, "dsseEnvelope": {
        "payload": STANDARD.encode(&payload), "payloadType": "application/vnd.in-toto+json",
        "signatures": [{ "sig": pair.sign(signed.as_bytes()) }] } });
    attach(fake, subject, &bundle);
}

/// Attaches a bundle to a manifest.
pub(super) fn attach(fake: &Fake, subject: &Digest, bundle: &Value) {
    const TYPE: &str = BUNDLE;
    let bundle = bundle.to_string();
    let layer = json!({ "mediaType": TYPE, "digest": fake.blob(bundle.as_bytes()), "size": bundle.len() });
    let config =
        json!({ "mediaType": "application/vnd.oci.empty.v1+json", "digest": fake.blob(b"{}"), "size": 2 });
    let own = fake.manifest(
        "x",
        &json!({ "schemaVersion": 2, "artifactType": TYPE, "config": config, "layers": [layer] }),
    );
    let entry = json!({ "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": own.to_string(), "size": 1,
        "artifactType": TYPE });
    fake.manifest(
        &tag(subject, ""),
        &json!({ "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry] }),
    );
}

async fn judged(fake: &Fake, trust: &Trust) -> Result<Verdict, String> {
    let place = Place::new();
    let pulled = place.pull(&fake.reference("a/b:1"), &access(), trust).await;
    match pulled {
        Ok(pulled) => Ok(pulled.verdict),
        Err(error) => {
            assert!(matches!(error, FetchError::Signature { .. }), "{error}");
            assert_eq!(place.left(), 0);
            Err(error.to_string())
        }
    }
}

fn named(pair: &Pair) -> Trust {
    Trust::Named(signer(pair))
}

fn signer(pair: &Pair) -> Signer {
    pair.public().to_string().parse().unwrap()
}

#[tokio::test]
async fn the_key_that_is_given_must_have_signed() {
    for (right, other) in
        [(Pair::p256(), Pair::ed25519()), (Pair::ed25519(), Pair::p256()), (Pair::p256(), Pair::p256())]
    {
        let fake = Fake::honest();
        let digest = fake.thing("1", COMPONENT, EMPTY);
        assert_eq!(judged(&fake, &Trust::Nobody).await, Ok(Verdict::Unsigned));
        let error = judged(&fake, &named(&right)).await.unwrap_err();
        assert!(error.contains("it is not signed; you require one with the "), "{error}");
        sign(&fake, &digest, &digest, &[&other]);
        let error = judged(&fake, &named(&right)).await.unwrap_err();
        assert!(error.contains("found one with a key for cosign: it was made with another key"), "{error}");
        sign(&fake, &digest, &digest, &[&other, &right]);
        let verdict = judged(&fake, &named(&right)).await.unwrap();
        assert_eq!(verdict.signer(), Some(&signer(&right)));
    }
}

#[tokio::test]
async fn the_pinned_key_must_have_signed_again() {
    let (pinned, other) = (Pair::p256(), Pair::p256());
    let fake = Fake::honest();
    let digest = fake.thing("1", COMPONENT, EMPTY);
    let trust = Trust::Pinned(signer(&pinned));
    let error = judged(&fake, &trust).await.unwrap_err();
    assert!(
        error.contains("it is not signed; the installed content is signed with the ECDSA P-256 key"),
        "{error}"
    );
    sign(&fake, &digest, &digest, &[&other]);
    assert!(judged(&fake, &trust).await.unwrap_err().contains("it has no valid signature;"));
    sign(&fake, &digest, &digest, &[&pinned]);
    assert_eq!(judged(&fake, &trust).await, Ok(Verdict::Signed(signer(&pinned))));
}

/// PR08: a signature of another manifest by the right key is refused.
#[tokio::test]
async fn a_signature_is_about_one_manifest() {
    let pair = Pair::p256();
    let fake = Fake::honest();
    let digest = fake.thing("1", COMPONENT, EMPTY);
    sign(&fake, &digest, &Digest::hash(b"other"), &[&pair]);
    let error = judged(&fake, &named(&pair)).await.unwrap_err();
    assert!(error.contains("it signs another manifest"), "{error}");
}

#[tokio::test]
async fn without_a_key_a_signature_is_told_and_not_believed() {
    let pair = Pair::p256();
    let fake = Fake::honest();
    let digest = fake.thing("1", COMPONENT, EMPTY);
    sign(&fake, &digest, &digest, &[&pair]);
    let verdict = judged(&fake, &Trust::Nobody).await.unwrap();
    assert_eq!(
        verdict.describe(),
        "claims a signature with a key for cosign, which is not checked without the key: `--key`"
    );
    assert_eq!(verdict.signer(), None);
}

#[tokio::test]
async fn a_bundle_counts_where_it_is_a_signature() {
    const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
    let pair = Pair::p256();
    let fake = Fake::honest();
    let digest = fake.thing("1", COMPONENT, EMPTY);
    let key = json!({ "publicKey": { "hint": "" } });
    bundle(&fake, &digest, &key, "https://slsa.dev/provenance/v1", &pair);
    let error = judged(&fake, &named(&pair)).await.unwrap_err();
    assert!(error.contains("its statement is not a signature"), "{error}");
    bundle(&fake, &digest, &key, SIGN, &Pair::p256());
    assert!(judged(&fake, &named(&pair)).await.unwrap_err().contains("made with another key"));
    bundle(&fake, &digest, &key, SIGN, &pair);
    assert_eq!(judged(&fake, &named(&pair)).await, Ok(Verdict::Signed(signer(&pair))));
    // haft quotes the claims of an uncertified certificate as invalid.
    let mut der = b"\x06\x03\x55\x1d\x11\x01\x01\xff\x04\x0f\x30\x0d\x81\x0ba@b.example".to_vec();
    der.extend_from_slice(b"\x06\x0a\x2b\x06\x01\x04\x01\x83\xbf\x30\x01\x01\x04\x0fhttps://a.b/c/d");
    let certificate = json!({ "certificate": { "rawBytes": STANDARD.encode(der) } });
    bundle(&fake, &digest, &certificate, SIGN, &pair);
    let verdict = judged(&fake, &Trust::Nobody).await.unwrap();
    let Verdict::Unchecked(claims) = verdict else { panic!("{verdict:?}") };
    let report = "keylessly by `a@b.example` (issuer `https://a.b/c/d`), which is invalid: ";
    assert!(claims.len() == 1 && claims[0].starts_with(report), "{claims:?}");
}
