//! Sigstore bundles, which newer versions of cosign attach: a DSSE envelope around a statement that names a
//! manifest. A statement with another predicate, such as an SBOM, does not count as a signature.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::{PublicKey, certificate};
use crate::Digest;

/// The payload type of an in-toto statement.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// The predicate type of a signature.
const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InToto {
    predicate_type: String,
    subject: Vec<InTotoSubject>,
}

#[derive(Deserialize)]
struct InTotoSubject {
    digest: std::collections::BTreeMap<String, String>,
}

/// Returns the claims of the bundle about its signer.
pub(super) fn claim(bytes: &[u8]) -> String {
    let bundle: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let certificate = [
        "/verificationMaterial/certificate/rawBytes",
        "/verificationMaterial/x509CertificateChain/certificates/0/rawBytes",
    ]
    .iter()
    .find_map(|path| bundle.pointer(path)?.as_str());
    match certificate.and_then(|text| STANDARD.decode(text).ok()) {
        Some(der) => certificate::claim(&der),
        None => "with a key for cosign".to_owned(),
    }
}

/// Verifies that `key` signed the statement, and that the statement is a signature of this manifest.
pub(super) fn verify(bytes: &[u8], manifest: &Digest, key: &PublicKey) -> Result<(), String> {
    let bundle: Value = serde_json::from_slice(bytes).map_err(|_| "it is not a bundle")?;
    let envelope = bundle.get("dsseEnvelope").ok_or("it holds no statement about a manifest")?;
    let envelope = Envelope::deserialize(envelope).map_err(|_| "its envelope is not one")?;
    let payload = STANDARD.decode(&envelope.payload).map_err(|_| "its payload is not base64")?;
    let signed = encoding(&envelope.payload_type, &payload);
    let is_right = |signature: &Signature| {
        STANDARD.decode(&signature.sig).is_ok_and(|signature| key.has_signed(&signed, &signature))
    };
    if !envelope.signatures.iter().any(is_right) {
        return Err("it was made with another key".to_owned());
    }
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err("its payload is for something else".to_owned());
    }
    let statement: InToto = serde_json::from_slice(&payload).map_err(|_| "its payload is not a statement")?;
    if statement.predicate_type != PREDICATE {
        return Err("it states something else than a signature".to_owned());
    }
    let is_manifest =
        |subject: &InTotoSubject| subject.digest.get("sha256").is_some_and(|hex| hex == manifest.hex());
    if !statement.subject.iter().any(is_manifest) {
        return Err("it is about another manifest".to_owned());
    }
    Ok(())
}

/// Returns the signed bytes of an envelope: the type and the payload, each with its length (DSSE, "PAE").
pub(super) fn encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}
