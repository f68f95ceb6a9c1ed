//! Keyless signatures: a certificate with a validity of minutes names the signer, and a transparency log or a
//! timestamp proves that the signature was made within its validity (Sigstore). Verified in this process with the
//! trust root alone; nothing is fetched. A signature counts if it states that its signer made or published the
//! subject, not merely reviewed it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use sigstore_verify::crypto::SubjectAltName;
use sigstore_verify::trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};
use sigstore_verify::types::{Artifact, ArtifactDigest, Bundle, HashAlgorithm};
use sigstore_verify::{VerificationPolicy, VerificationResult, Verifier};

use super::cosign::{self, PAYLOAD_TYPE};
use super::identity::Identity;
use super::{MAX_STATEMENTS, Statement, Subject, provider};
use crate::Digest;
use crate::listing::read_text;

/// Limit on the bytes of a trust root: twenty times Sigstore's, which has all of its earlier keys.
const MAX_ROOT: u64 = 1 << 20;

/// The predicates of statements in which a signer vouches for a subject: a signature, the record of a build (SLSA),
/// the record of a publication on PyPI (PEP 740).
const PREDICATES: &[&str] = &[
    cosign::PREDICATE,
    "https://slsa.dev/provenance/v0.2",
    "https://slsa.dev/provenance/v1",
    "https://docs.pypi.org/attestations/publish/v1",
];

/// The trusted authorities and logs of keyless signatures: those of a user's file, or those of Sigstore's public
/// instance, embedded in this haft.
#[derive(Clone, Debug, Default)]
pub struct TrustRoot {
    file: Option<PathBuf>,
}

impl TrustRoot {
    /// The name of a user's file, in the JSON form of Sigstore's `TrustedRoot`.
    pub const FILE: &str = "trusted_root.json";

    /// Returns the root in the file [`Self::FILE`] in `folder`, and Sigstore's without that file.
    pub fn in_folder(folder: &Path) -> Self {
        Self { file: Some(folder.join(Self::FILE)) }
    }

    /// Reads the root. An unusable file of the user is an error.
    fn load(&self) -> Result<TrustedRoot, String> {
        let own = self.file.as_deref().map(read).transpose()?.flatten();
        let text = own.as_deref().unwrap_or(SIGSTORE_PRODUCTION_TRUSTED_ROOT);
        TrustedRoot::from_json(text).map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, error: &dyn std::fmt::Display) -> String {
        match &self.file {
            Some(file) => format!("`{}` is not a trust root: {error}", file.display()),
            None => format!("the trust root cannot be used: {error}"),
        }
    }
}

fn read(file: &Path) -> Result<Option<String>, String> {
    match read_text(file, MAX_ROOT) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        text => text.map(Some).map_err(|error| format!("`{}` cannot be read: {error}", file.display())),
    }
}

/// Verifies a keyless signature of the subject and returns its identity; `None` if the statement is not keyless.
pub(super) fn verify(
    statement: &Statement,
    subject: Subject<'_>,
    root: &TrustRoot,
) -> Option<Result<Identity, String>> {
    match statement {
        Statement::Bundle(bytes) => {
            let bundle: Value = serde_json::from_slice(bytes).ok()?;
            cosign::certificate(&bundle)?;
            Some(artifact(subject).and_then(|artifact| {
                let verified = checked(&bundle, artifact, root)?;
                states_origin(&bundle)?;
                Ok(verified)
            }))
        }
        Statement::Cosign { payload, signature, certificate: Some(certificate), entry } => {
            let Subject::Manifest(manifest) = subject else { return None };
            let entry = entry.as_deref().unwrap_or_default();
            Some(simple(payload, signature, certificate, entry).and_then(|bundle| {
                let verified = checked(&bundle, Artifact::from(payload.as_slice()), root)?;
                cosign::is_of(payload, manifest)?;
                Ok(verified)
            }))
        }
        Statement::Cosign { .. } | Statement::Minisign(_) => None,
    }
}

fn artifact(subject: Subject<'_>) -> Result<Artifact<'static>, String> {
    match subject {
        Subject::Manifest(digest) => digested(HashAlgorithm::Sha2256, &digest.bytes()),
        Subject::Sha256(bytes) => digested(HashAlgorithm::Sha2256, bytes),
        Subject::Sha512(bytes) => digested(HashAlgorithm::Sha2512, bytes),
        Subject::File(_) => Err("it signs other content".to_owned()),
    }
}

fn digested(algorithm: HashAlgorithm, bytes: &[u8]) -> Result<Artifact<'static>, String> {
    let digest = ArtifactDigest::new(algorithm, bytes.to_vec());
    digest.map(Artifact::from).map_err(|error| error.to_string())
}

/// Verifies a bundle: certificate, log, time, signature and subject.
fn checked(bundle: &Value, artifact: Artifact<'_>, root: &TrustRoot) -> Result<Identity, String> {
    let trusted = root.load()?;
    // The claims and the verification use one parsed text.
    let bundle =
        Bundle::from_json(&bundle.to_string()).map_err(|error| format!("it is not a bundle: {error}"))?;
    let message = artifact.blob().map(<[u8]>::to_vec).unwrap_or_default();
    provider::verifying(&message, || {
        let verifier = Verifier::new(&trusted).map_err(|error| root.unusable(&error))?;
        let result = verifier.verify(artifact, &bundle, &policy(&trusted));
        identified(&result.map_err(|error| error.to_string())?)
    })
}

/// Returns the checks that the trust root makes possible. Instances without a public log prove the time of a signature
/// by a timestamp authority, which is required then.
fn policy(root: &TrustedRoot) -> VerificationPolicy {
    let mut policy = VerificationPolicy::any_identity();
    if root.ctlogs.is_empty() {
        policy = policy.skip_sct();
    }
    if root.tlogs.is_empty() {
        policy = policy.skip_tlog_unsafe();
    }
    policy
}

fn identified(result: &VerificationResult) -> Result<Identity, String> {
    let issuer = result.issuer().unwrap_or_default();
    let identity = match result.identity() {
        Some(SubjectAltName::Uri(workflow)) => {
            let claims = result.certificate().map(|certificate| &certificate.ci_claims);
            let repository = claims.and_then(|claims| claims.source_repository_uri.as_deref());
            Identity::of_workflow(issuer, workflow, repository)
        }
        Some(name) => Identity::new(issuer, name.as_str()),
        None => None,
    };
    identity.ok_or_else(|| "its certificate has no identity".to_owned())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Predicate {
    predicate_type: String,
}

/// Checks that a statement is about the subject's origin. A signature of the subject itself is.
fn states_origin(bundle: &Value) -> Result<(), String> {
    let Some(envelope) = bundle.get("dsseEnvelope") else { return Ok(()) };
    let text = |key: &str| envelope.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("payloadType") != PAYLOAD_TYPE {
        return Err("its payload signs other content".to_owned());
    }
    let payload = STANDARD.decode(text("payload")).map_err(|_| "its payload is not base64")?;
    let predicate: Predicate =
        serde_json::from_slice(&payload).map_err(|_| "its payload is not a statement")?;
    if PREDICATES.contains(&predicate.predicate_type.as_str()) {
        return Ok(());
    }
    Err("its statement is not a provenance statement".to_owned())
}

/// The entry of the transparency log, as cosign writes it beside a signature.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    signed_entry_timestamp: String,
    payload: EntryPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryPayload {
    body: String,
    integrated_time: i64,
    log_index: i64,
    #[serde(rename = "logID")]
    log: String,
}

/// Returns the bundle of a signature that cosign pushed in parts.
fn simple(payload: &[u8], signature: &str, certificate: &str, entry: &str) -> Result<Value, String> {
    let entry: Entry = serde_json::from_str(entry).map_err(|_| "it has no entry of a transparency log")?;
    let log: Digest = entry.payload.log.parse().map_err(|_| "its log has no name")?;
    let log = STANDARD.encode(log.bytes());
    let digest = STANDARD.encode(Digest::hash(payload).bytes());
    Ok(json!({
        "mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.1",
        "verificationMaterial": {
            "x509CertificateChain": { "certificates": [{ "rawBytes": cosign::base64_of_pem(certificate) }] },
            "tlogEntries": [{
                "logIndex": entry.payload.log_index.to_string(),
                "logId": { "keyId": log },
                "kindVersion": { "kind": "hashedrekord", "version": "0.0.1" },
                "integratedTime": entry.payload.integrated_time.to_string(),
                "inclusionPromise": { "signedEntryTimestamp": entry.signed_entry_timestamp },
                "canonicalizedBody": entry.payload.body,
            }],
        },
        "messageSignature": {
            "messageDigest": { "algorithm": "SHA2_256", "digest": digest },
            "signature": signature.trim(),
        },
    }))
}

// Attestations of npm and PyPI as Sigstore bundles, not verified.

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
    let keyless = bundles.filter(|bundle| cosign::certificate(bundle).is_some());
    keyless.take(MAX_STATEMENTS).map(|bundle| Statement::Bundle(bundle.to_string().into_bytes())).collect()
}
