//! Signatures that cosign makes with a key over a payload that names a manifest ("simple signing"). A payload
//! about another manifest is refused, even with a valid signature.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

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
    let payload: Payload = serde_json::from_slice(payload).map_err(|_| "its payload is not a signature's")?;
    if payload.critical.r#type != TYPE {
        return Err("its payload is for something else".to_owned());
    }
    if payload.critical.image.digest != manifest.to_string() {
        return Err("it is about another manifest".to_owned());
    }
    Ok(())
}
