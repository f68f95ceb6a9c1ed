//! The tags of a repository.

use serde::Deserialize;

use super::access::Access;
use super::error::{Failure, OciError};
use super::exchange::{Ask, read};
use super::reference::Reference;
use super::registry::{Action, Registry, WITHIN};

/// Tags that a registry is asked for at once.
const PAGE: usize = 1000;

/// How often it is asked for more: nobody looks for a version among so many.
const MAX_PAGES: usize = 20;

/// Bytes of one answer: a thousand tags of the greatest length.
const MAX_LIST: u64 = 1 << 20;

/// What messages call it.
const THE_LIST: &str = "the list of tags";

#[derive(Deserialize)]
struct List {
    /// Some registries have `null` for none.
    tags: Option<Vec<String>>,
}

/// The tags of the repository of `reference`, as far as the registry tells; as a rule in alphabetical order.
///
/// # Errors
/// The registry does not tell, or not in JSON.
pub async fn tags(reference: &Reference, access: &Access) -> Result<Vec<String>, OciError> {
    let registry = Registry::new(reference, Action::Pull, access)?;
    let mut all: Vec<String> = Vec::new();
    for _ in 0..MAX_PAGES {
        let mut url = registry.url("tags/list");
        url.query_pairs_mut().append_pair("n", &PAGE.to_string());
        if let Some(last) = all.last() {
            url.query_pairs_mut().append_pair("last", last);
        }
        let response = registry.send(&Ask::get(url), WITHIN).await?;
        let has_more = response.headers().contains_key("link");
        let page = page(response).await.map_err(|failure| registry.failed(failure))?;
        let new: Vec<String> = page.into_iter().filter(|tag| !all.contains(tag)).collect();
        // One that gives the same again has no more, whatever it says.
        if new.is_empty() {
            break;
        }
        all.extend(new);
        if !has_more {
            break;
        }
    }
    Ok(all)
}

async fn page(response: reqwest::Response) -> Result<Vec<String>, Failure> {
    let body = read(response, THE_LIST, MAX_LIST, WITHIN).await?;
    let list: List = serde_json::from_slice(&body)
        .map_err(|error| Failure::Malformed { what: THE_LIST, why: error.to_string() })?;
    Ok(list.tags.unwrap_or_default())
}
