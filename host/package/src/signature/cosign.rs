//! Signatures of cosign: with a key over a payload that names a manifest ("simple signing"), or in a Sigstore
//! bundle, a DSSE envelope around a statement that names a manifest. A payload about another manifest is refused,
//! even with a valid signature. The fields of a certificate are only claims here, for messages, because the
//! certificate may be forged; `keyless.rs` verifies certificates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use sigstore_verify::types::pae;

use super::PublicKey;
use crate::Digest;

/// The type in such a payload.
const TYPE: &str = "cosign container image signature";

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    r#type: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// Verifies that `key` signed this payload, and that the payload names this manifest.
pub(super) fn verify(
    payload: &[u8],
    signature: &str,
    manifest: &Digest,
    key: &PublicKey,
) -> Result<(), String> {
    let signature = STANDARD.decode(signature.trim()).map_err(|_| "its signature is not base64")?;
    if !key.has_signed(payload, &signature) {
        return Err("it was made with another key".to_owned());
    }
    is_of(payload, manifest)
}

pub(super) fn is_of(payload: &[u8], manifest: &Digest) -> Result<(), String> {
    let payload: Payload =
        serde_json::from_slice(payload).map_err(|_| "its payload is not a signature payload")?;
    if payload.critical.r#type != TYPE {
        return Err("its payload signs other content".to_owned());
    }
    if payload.critical.image.digest != manifest.to_string() {
        return Err("it signs another manifest".to_owned());
    }
    Ok(())
}

/// The payload type of an in-toto statement.
pub(super) const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// The predicate type of a signature.
pub(super) const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";

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

pub(super) fn claim_of_bundle(bytes: &[u8]) -> String {
    let bundle: Value = serde_json::from_slice(bytes).unwrap_or_default();
    match certificate(&bundle).and_then(|text| STANDARD.decode(text).ok()) {
        Some(der) => claim_of_certificate(&der),
        None => "with a key for cosign".to_owned(),
    }
}

/// Returns the certificate of a bundle, in base64, if the bundle is keyless.
pub(super) fn certificate(bundle: &Value) -> Option<&str> {
    let places = [
        "/verificationMaterial/certificate/rawBytes",
        "/verificationMaterial/x509CertificateChain/certificates/0/rawBytes",
    ];
    places.iter().find_map(|path| bundle.pointer(path)?.as_str())
}

/// Verifies that `key` signed the statement, and that the statement is a signature of this manifest.
pub(super) fn verify_bundle(bytes: &[u8], manifest: &Digest, key: &PublicKey) -> Result<(), String> {
    let bundle: Value = serde_json::from_slice(bytes).map_err(|_| "it is not a bundle")?;
    let envelope = bundle.get("dsseEnvelope").ok_or("it holds no statement about a manifest")?;
    let envelope = Envelope::deserialize(envelope).map_err(|_| "its envelope is invalid")?;
    let payload = STANDARD.decode(&envelope.payload).map_err(|_| "its payload is not base64")?;
    let signed = pae(&envelope.payload_type, &payload);
    let is_right = |signature: &Signature| {
        STANDARD.decode(&signature.sig).is_ok_and(|signature| key.has_signed(&signed, &signature))
    };
    if !envelope.signatures.iter().any(is_right) {
        return Err("it was made with another key".to_owned());
    }
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err("its payload signs other content".to_owned());
    }
    let statement: InToto = serde_json::from_slice(&payload).map_err(|_| "its payload is not a statement")?;
    if statement.predicate_type != PREDICATE {
        return Err("its statement is not a signature".to_owned());
    }
    let is_manifest =
        |subject: &InTotoSubject| subject.digest.get("sha256").is_some_and(|hex| hex == manifest.hex());
    if !statement.subject.iter().any(is_manifest) {
        return Err("it signs another manifest".to_owned());
    }
    Ok(())
}

/// The DER object identifier of the extension with the subject's names (RFC 5280, 4.2.1.6).
const SUBJECT: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x11];
/// The DER object identifier of Fulcio's extension with the identity provider (1.3.6.1.4.1.57264.1.1).
const ISSUER: &[u8] = &[0x06, 0x0a, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xbf, 0x30, 0x01, 0x01];

/// DER tags: an octet string, a sequence, and two kinds of names: an e-mail address and a URI.
const OCTETS: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
const EMAIL: u8 = 0x81;
const URI: u8 = 0x86;
/// `critical: true`, which may precede an extension's value.
const CRITICAL: &[u8] = &[0x01, 0x01, 0xff];

/// Limit on the characters of a name that are shown.
const MAX_NAME: usize = 200;

pub(super) fn claim_of_pem(pem: &str) -> String {
    claim_of_certificate(&STANDARD.decode(base64_of_pem(pem)).unwrap_or_default())
}

/// Returns the DER in base64 of the first certificate in PEM.
pub(super) fn base64_of_pem(pem: &str) -> String {
    pem.split("-----").nth(2).unwrap_or_default().split_ascii_whitespace().collect()
}

pub(super) fn claim_of_certificate(der: &[u8]) -> String {
    let issuer = extension(der, ISSUER).and_then(name);
    let issuer = issuer.map(|issuer| format!(" (issuer `{issuer}`)")).unwrap_or_default();
    match extension(der, SUBJECT).and_then(subject) {
        Some(subject) => format!("keylessly by `{subject}`{issuer}"),
        None => "keylessly by an unknown identity".to_owned(),
    }
}

/// Returns the value of the first extension with this identifier, at any position.
fn extension<'a>(der: &'a [u8], identifier: &[u8]) -> Option<&'a [u8]> {
    let at = der.windows(identifier.len()).position(|window| window == identifier)?;
    let rest = der.get(at + identifier.len()..)?;
    value(rest.strip_prefix(CRITICAL).unwrap_or(rest), OCTETS)
}

fn subject(list: &[u8]) -> Option<String> {
    let names = value(list, SEQUENCE)?;
    value(names, EMAIL).or_else(|| value(names, URI)).and_then(name)
}

/// Returns the value with the tag `tag` at the start of `der`.
fn value(der: &[u8], tag: u8) -> Option<&[u8]> {
    let (found, rest) = der.split_first()?;
    if *found != tag {
        return None;
    }
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), rest.get(2..)?),
        _ => return None,
    };
    rest.get(..length)
}

/// Returns a name that is safe to show.
fn name(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_plain = !text.is_empty() && !text.contains(|c: char| c.is_control() || c == '`');
    is_plain.then(|| text.chars().take(MAX_NAME).collect())
}
