//! Attestations of npm and PyPI as Sigstore bundles. Verifies nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::cosign::PAYLOAD_TYPE;
use super::{MAX_STATEMENTS, Statement};

/// Limit on the bytes of a document with attestations: several statements, each with its certificate and proof.
pub(crate) const MAX_DOCUMENT: usize = 2 << 20;

/// Parses npm's answer about the attestations of one version: those with the subject `about`.
pub(crate) fn of_npm(document: &[u8], about: &str) -> Vec<Statement> {
    let document: Value = serde_json::from_slice(document).unwrap_or_default();
    let attestations = document.get("attestations").and_then(Value::as_array).into_iter().flatten();
    let bundles = attestations.filter_map(|attestation| attestation.get("bundle").cloned());
    statements(bundles.filter(|bundle| is_about(bundle, about)))
}

/// Reports whether all subjects of the statement in a bundle (in-toto) are called `name`.
fn is_about(bundle: &Value, name: &str) -> bool {
    let payload = bundle.pointer("/dsseEnvelope/payload").and_then(Value::as_str).unwrap_or_default();
    let payload = STANDARD.decode(payload).unwrap_or_default();
    let statement: Value = serde_json::from_slice(&payload).unwrap_or_default();
    let subjects = statement.get("subject").and_then(Value::as_array);
    let is_called = |subject: &Value| subject.get("name").and_then(Value::as_str) == Some(name);
    subjects.is_some_and(|all| !all.is_empty() && all.iter().all(is_called))
}

/// Reads the provenance of one file in an index of PyPI (PEP 740).
pub(crate) fn of_pypi(document: &[u8]) -> Vec<Statement> {
    let document: Value = serde_json::from_slice(document).unwrap_or_default();
    let bundles = document.get("attestation_bundles").and_then(Value::as_array).into_iter().flatten();
    let attestations = bundles.filter_map(|bundle| bundle.get("attestations")?.as_array()).flatten();
    statements(attestations.filter_map(bundle))
}

/// Returns the Sigstore bundle of an attestation object (PEP 740, version 1).
fn bundle(attestation: &Value) -> Option<Value> {
    let (material, envelope) = (attestation.get("verification_material")?, attestation.get("envelope")?);
    Some(json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {
            "certificate": { "rawBytes": material.get("certificate")? },
            "tlogEntries": material.get("transparency_entries")?,
        },
        "dsseEnvelope": {
            "payload": envelope.get("statement")?,
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{ "sig": envelope.get("signature")? }],
        },
    }))
}

/// Returns the keyless ones: the key of a registry does not identify a package's author.
fn statements(bundles: impl Iterator<Item = Value>) -> Vec<Statement> {
    let keyless = bundles.filter(|bundle| super::cosign::certificate(bundle).is_some());
    keyless.take(MAX_STATEMENTS).map(|bundle| Statement::Bundle(bundle.to_string().into_bytes())).collect()
}
