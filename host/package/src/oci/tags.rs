//! Lists the tags of a repository.

use serde::Deserialize;

use super::access::Access;
use super::error::{Failure, OciError};
use super::exchange::{Ask, read};
use super::reference::Reference;
use super::registry::{Action, Registry, WITHIN};

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
        // A registry without pagination sends the same page again, whatever its `Link` header.
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

async fn page(response: reqwest::Response) -> Result<Vec<String>, Failure> {
    let body = read(response, THE_LIST, MAX_LIST, WITHIN).await?;
    let list: List = serde_json::from_slice(&body)
        .map_err(|error| Failure::Malformed { what: THE_LIST, why: error.to_string() })?;
    Ok(list.tags.unwrap_or_default())
}
