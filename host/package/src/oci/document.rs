//! Reads small documents of a registry with a size limit: manifests, indexes, and signature blobs.

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;

use super::error::{Failure, OciError};
use super::exchange::{Ask, read};
use super::manifest::{ACCEPT, Descriptor, Document, MAX_MANIFEST};
use super::registry::{Registry, WITHIN};
use crate::Digest;

/// The response header with the content's digest.
const DIGEST: &str = "docker-content-digest";

/// The name of the manifest in messages.
const THE_MANIFEST: &str = "the manifest";

/// Reads a manifest or an index, and its digest, which is computed and compared with the expected and the
/// announced digest.
pub(super) async fn document(
    registry: &Registry<'_>,
    target: &str,
    expected: Option<&Digest>,
) -> Result<(Document, Digest), OciError> {
    let ask = Ask { accept: Some(ACCEPT), ..Ask::get(registry.url(&format!("manifests/{target}"))) };
    let response = registry.send(&ask, WITHIN).await?;
    parsed(response, expected).await.map_err(|failure| registry.failed(failure))
}

async fn parsed(response: Response, expected: Option<&Digest>) -> Result<(Document, Digest), Failure> {
    let text =
        |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (announced, media_type) = (text(DIGEST), text(CONTENT_TYPE.as_str()).unwrap_or_default());
    let body = read(response, THE_MANIFEST, MAX_MANIFEST, WITHIN).await?;
    let found = Digest::hash(&body);
    // A digest of an unsupported algorithm is ignored: the body is hashed anyway.
    let announced = announced.and_then(|text| super::reference::digest(&text).ok());
    for expected in expected.into_iter().chain(&announced) {
        if *expected != found {
            return Err(Failure::Digest { what: THE_MANIFEST, expected: expected.clone(), found });
        }
    }
    let document = Document::parse(&body, &media_type);
    let document = document.map_err(|why| Failure::Malformed { what: THE_MANIFEST, why })?;
    Ok((document, found))
}

/// Reads a small blob.
pub(super) async fn blob(
    registry: &Registry<'_>,
    descriptor: &Descriptor,
    what: &'static str,
    limit: u64,
) -> Result<Vec<u8>, OciError> {
    let failed = |failure| registry.failed(failure);
    let expected = descriptor.checked().map_err(|why| failed(Failure::Content(why)))?;
    let response = registry.send(&Ask::get(registry.url(&format!("blobs/{expected}"))), WITHIN).await?;
    let body = read(response, what, limit, WITHIN).await.map_err(failed)?;
    let found = Digest::hash(&body);
    if found == expected { Ok(body) } else { Err(failed(Failure::Digest { what, expected, found })) }
}
