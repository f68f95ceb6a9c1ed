//! Reads small documents of a registry with a size limit: manifests, indexes, signature blobs, and lists of
//! tags.

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;

use super::credentials::Access;
use super::error::{Failure, OciError};
use super::exchange::{Ask, read};
use super::manifest::{ACCEPT, Descriptor, Document, MAX_MANIFEST};
use super::reference::Reference;
use super::registry::{Action, Registry, WITHIN};
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

/// Tags per request.
const PAGE: usize = 1000;

/// Limit on the requests: 20,000 tags.
const MAX_PAGES: usize = 20;

/// Limit on the bytes of one response: a thousand tags of the greatest length.
const MAX_LIST: u64 = 1 << 20;

/// The name of the response in messages.
const THE_LIST: &str = "the list of tags";

#[derive(Deserialize)]
struct List {
    /// Some registries send `null` for an empty list.
    tags: Option<Vec<String>>,
}

/// Returns the tags of the repository of `reference`, up to a limit; usually in alphabetical order.
///
/// # Errors
/// The registry does not respond, or not in JSON.
pub async fn tags(reference: &Reference, access: &Access) -> Result<Vec<String>, OciError> {
    let registry = Registry::new(reference, Action::Pull, access)?;
    let mut tags: Vec<String> = Vec::new();
    for _ in 0..MAX_PAGES {
        let mut url = registry.url("tags/list");
        url.query_pairs_mut().append_pair("n", &PAGE.to_string());
        if let Some(last) = tags.last() {
            url.query_pairs_mut().append_pair("last", last);
        }
        let response = registry.send(&Ask::get(url), WITHIN).await?;
        let has_more = response.headers().contains_key("link");
        let page = page(response).await.map_err(|failure| registry.failed(failure))?;
        let new: Vec<String> = page.into_iter().filter(|tag| !tags.contains(tag)).collect();
        // A registry without pagination sends one page again, regardless of its `Link` header.
        if new.is_empty() {
            break;
        }
        tags.extend(new);
        if !has_more {
            break;
        }
    }
    Ok(tags)
}

async fn page(response: Response) -> Result<Vec<String>, Failure> {
    let body = read(response, THE_LIST, MAX_LIST, WITHIN).await?;
    let list: List = serde_json::from_slice(&body)
        .map_err(|error| Failure::Malformed { what: THE_LIST, why: error.to_string() })?;
    Ok(list.tags.unwrap_or_default())
}
