//! A Sigstore instance of one test: an authority that certifies identities, and a transparency log. It signs every
//! request.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, CustomExtension,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, date_time_ymd,
};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

/// The time of all signatures, in seconds since 1970.
const TIME: i64 = 1_700_000_000;

/// The media types of a bundle and of a statement.
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const STATEMENT: &str = "application/vnd.in-toto+json";

/// The predicate of a build's provenance.
pub(crate) const SLSA: &str = "https://slsa.dev/provenance/v1";

/// The issuer that certifies the identity of a workflow.
pub(crate) const ISSUER: &str = "https://token.example.com";

/// A Sigstore instance.
pub(crate) struct Instance {
    authority: CertifiedIssuer<'static, KeyPair>,
    log: KeyPair,
}

/// The holder of a certificate.
pub(crate) struct Holder {
    key: KeyPair,
    certificate: Certificate,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

fn signed(key: &KeyPair, message: &[u8]) -> Vec<u8> {
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &key.serialize_der(), &random);
    pair.unwrap().sign(&random, message).unwrap().as_ref().to_vec()
}

/// An extension of Fulcio with a text (1.3.6.1.4.1.57264.1.X).
fn extension(last: u64, text: &str) -> CustomExtension {
    let der = [&[0x0c, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57_264, 1, last], der)
}

impl Instance {
    pub(crate) fn new() -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        authority.not_before = date_time_ymd(2020, 1, 1);
        authority.not_after = date_time_ymd(2100, 1, 1);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        Self { authority, log: KeyPair::generate().unwrap() }
    }

    fn log_id(&self) -> Vec<u8> {
        sha256(&self.log.subject_public_key_info())
    }

    /// Writes the trusted root of this instance into the folder of a person's configuration.
    pub(crate) fn trusted_in(&self, folder: &Path) {
        let valid = json!({ "start": "2020-01-01T00:00:00Z" });
        let key = json!({ "rawBytes": STANDARD.encode(self.log.subject_public_key_info()),
            "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": valid });
        let root = json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [{ "baseUrl": "https://log.example.com", "hashAlgorithm": "SHA2_256", "publicKey": key,
                "logId": { "keyId": STANDARD.encode(self.log_id()) } }],
            "certificateAuthorities": [{ "subject": { "organization": "a", "commonName": "b" },
                "uri": "https://ca.example.com",
                "certChain": { "certificates": [{ "rawBytes": STANDARD.encode(self.authority.der()) }] },
                "validFor": valid }],
            "ctlogs": [], "timestampAuthorities": [],
        });
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("trusted_root.json"), root.to_string()).unwrap();
    }

    /// Certifies a workflow that ran for `repository`.
    pub(crate) fn certify(&self, workflow: &str, repository: &str) -> Holder {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(workflow.try_into().unwrap())];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2100, 1, 1);
        params.use_authority_key_identifier_extension = true;
        params.custom_extensions = vec![extension(8, ISSUER), extension(12, repository)];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        Holder { key, certificate }
    }

    /// The bundle of a statement about the subject with this digest.
    pub(crate) fn attest(&self, holder: &Holder, predicate: &str, digest: &Value) -> Value {
        self.attest_named(holder, predicate, ("x", digest))
    }

    /// The bundle of a statement about the subject with this name and digest.
    pub(crate) fn attest_named(
        &self,
        holder: &Holder,
        predicate: &str,
        (name, digest): (&str, &Value),
    ) -> Value {
        let statement = json!({ "_type": "https://in-toto.io/Statement/v1", "predicateType": predicate,
            "subject": [{ "name": name, "digest": digest }], "predicate": {} });
        let payload = statement.to_string();
        let message = format!("DSSEv1 {} {STATEMENT} {} {payload}", STATEMENT.len(), payload.len());
        let signature = STANDARD.encode(signed(&holder.key, message.as_bytes()));
        let verifier = STANDARD.encode(holder.certificate.pem());
        let hash = |bytes: &[u8]| json!({ "algorithm": "sha256", "value": hex(&sha256(bytes)) });
        let body = json!({ "apiVersion": "0.0.1", "kind": "dsse", "spec": {
            "envelopeHash": hash(b"x"), "payloadHash": hash(payload.as_bytes()),
            "signatures": [{ "signature": signature, "verifier": verifier }] } });
        json!({ "mediaType": BUNDLE,
            "verificationMaterial": { "certificate": { "rawBytes": STANDARD.encode(holder.certificate.der()) },
                "tlogEntries": [self.entry("dsse", &body.to_string())] },
            "dsseEnvelope": { "payload": STANDARD.encode(&payload), "payloadType": STATEMENT,
                "signatures": [{ "sig": signature }] } })
    }

    /// A keyless signature in cosign's form before bundles: signature, certificate, log entry.
    pub(crate) fn sign(&self, holder: &Holder, payload: &[u8]) -> (String, String, String) {
        let signature = STANDARD.encode(signed(&holder.key, payload));
        let key = STANDARD.encode(holder.certificate.pem());
        let body = json!({ "apiVersion": "0.0.1", "kind": "hashedrekord", "spec": {
            "data": { "hash": { "algorithm": "sha256", "value": hex(&sha256(payload)) } },
            "signature": { "content": signature, "publicKey": { "content": key } } } });
        let entry = self.entry("hashedrekord", &body.to_string());
        let log = hex(&self.log_id());
        let entry = json!({ "SignedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"],
            "Payload": { "body": entry["canonicalizedBody"], "integratedTime": TIME, "logIndex": 0, "logID": log } });
        (signature, holder.certificate.pem(), entry.to_string())
    }

    /// The only entry of a log.
    fn entry(&self, kind: &str, body: &str) -> Value {
        let root = sha256(&[b"\0", body.as_bytes()].concat());
        let checkpoint = format!("log.example.com\n1\n{}\n", STANDARD.encode(&root));
        let id = self.log_id();
        let hint = [&id[..4], &signed(&self.log, checkpoint.as_bytes())].concat();
        let checkpoint = format!("{checkpoint}\n— log.example.com {}\n", STANDARD.encode(hint));
        let body = STANDARD.encode(body);
        let promised =
            format!(r#"{{"body":"{body}","integratedTime":{TIME},"logID":"{}","logIndex":0}}"#, hex(&id));
        json!({ "logIndex": "0", "logId": { "keyId": STANDARD.encode(&id) },
            "kindVersion": { "kind": kind, "version": "0.0.1" }, "integratedTime": TIME.to_string(),
            "inclusionPromise": { "signedEntryTimestamp": STANDARD.encode(signed(&self.log, promised.as_bytes())) },
            "inclusionProof": { "logIndex": "0", "rootHash": STANDARD.encode(&root), "treeSize": "1", "hashes": [],
                "checkpoint": { "envelope": checkpoint } },
            "canonicalizedBody": body })
    }
}
