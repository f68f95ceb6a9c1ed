//! Requests to one repository of a registry: authenticates on demand and repeats requests after transient
//! errors. Reads small documents with a size limit.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Response, Url};
use serde::Deserialize;
use tokio::sync::OnceCell;

use super::credential::Credential;
use super::credentials::Access;
use super::error::{Failure, OciError};
use super::exchange::{Ask, Asking, exchange, explained, read, same_origin};
use super::manifest::{ACCEPT, Descriptor, Document, MAX_MANIFEST};
use super::reference::Reference;
use super::token::{Asker, Challenge};
use crate::Digest;
use crate::download::is_public;
use haft_core::net::retry_after;
use haft_core::sync::Lock;

/// Time limit for the start of a response.
pub(super) const WITHIN: Duration = Duration::from_mins(1);

/// The intended access to a repository.
pub(super) const PULL: &str = "pull";
pub(super) const PUSH: &str = "pull,push";

pub(super) struct Registry<'a> {
    asking: Asking,
    base: Url,
    reference: &'a Reference,
    scope: String,
    access: &'a Access,
    /// Loaded on first use.
    credential: OnceCell<Option<Credential>>,
    /// The last `Authorization` header that the registry accepted.
    shown: Lock<Option<HeaderValue>>,
}

/// A failed attempt, and the delay that the registry requests.
struct Miss {
    failure: Failure,
    retry_after: Option<Duration>,
}

impl From<Failure> for Miss {
    fn from(failure: Failure) -> Self {
        Self { failure, retry_after: None }
    }
}

impl<'a> Registry<'a> {
    pub(super) fn new(reference: &'a Reference, rights: &str, access: &'a Access) -> Result<Self, OciError> {
        let failed = |failure: Failure| failure.into_error(reference, 1);
        let secure = !reference.is_loopback();
        let scheme = if secure { "https" } else { "http" };
        let base = Url::parse(&format!("{scheme}://{}/", reference.endpoint()));
        let base = base.map_err(|error| failed(Failure::Connect(error.to_string())))?;
        Ok(Self {
            asking: Asking::new(secure).map_err(failed)?,
            base,
            reference,
            scope: format!("repository:{}:{rights}", reference.repository()),
            access,
            credential: OnceCell::new(),
            shown: Lock::new(None),
        })
    }

    pub(super) fn url(&self, rest: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("/v2/{}/{rest}", self.reference.repository()));
        url
    }

    /// Returns the URL of an upload, which must be on the registry itself.
    pub(super) fn upload(&self, location: &str) -> Result<Url, Failure> {
        let wrong = |why| Failure::Redirect { target: super::error::excerpt(location), why };
        let url = self.base.join(location).map_err(|_| wrong("not a valid URL"))?;
        if same_origin(&url, &self.base) {
            return Ok(url);
        }
        Err(wrong("published content is sent only to the registry itself"))
    }

    pub(super) fn failed(&self, failure: Failure) -> OciError {
        failure.into_error(self.reference, 1)
    }

    /// Sends a request until it succeeds, fails permanently, or the attempts are used up.
    pub(super) async fn send(&self, ask: &Ask, within: Duration) -> Result<Response, OciError> {
        let mut attempts = 1;
        loop {
            // Boxed, which keeps the futures of all callers small.
            match Box::pin(self.attempt(ask, within)).await {
                Ok(response) => return Ok(response),
                Err(Miss { failure, retry_after }) => {
                    let failure = failure.cleaned(&self.access.redactor);
                    self.wait_after(failure, &mut attempts, retry_after).await?;
                }
            }
        }
    }

    /// Waits after a failed attempt, and counts it. The last failure, or a permanent one, is the error.
    pub(super) async fn wait_after(
        &self,
        failure: Failure,
        attempts: &mut u32,
        asked: Option<Duration>,
    ) -> Result<(), OciError> {
        let delay = failure.is_transient().then(|| self.access.retry.wait(*attempts, asked)).flatten();
        let error = failure.into_error(self.reference, *attempts);
        let Some(delay) = delay else { return Err(error) };
        tracing::info!("{error}; trying again in {delay:.1?}");
        tokio::time::sleep(delay).await;
        *attempts += 1;
        Ok(())
    }

    async fn attempt(&self, ask: &Ask, within: Duration) -> Result<Response, Miss> {
        let shown = self.shown.lock().clone();
        let response = exchange(&self.asking, ask, shown.as_ref(), within).await?;
        // A 401 from another origin, after a redirect, is not answered with credentials.
        if response.status().as_u16() != 401 || !same_origin(response.url(), &self.base) {
            return self.judged(response).await;
        }
        let Some(challenge) = challenge(&response) else { return self.judged(response).await };
        let shown = self.authorize(&challenge, is_public(&response)).await?;
        let response = exchange(&self.asking, ask, Some(&shown), within).await?;
        if response.status().is_success() {
            *self.shown.lock() = Some(shown);
        }
        self.judged(response).await
    }

    async fn authorize(&self, challenge: &Challenge, from_public: bool) -> Result<HeaderValue, Failure> {
        let credential = self.credential().await?;
        let asker =
            Asker { asking: &self.asking, registry: &self.base, scope: &self.scope, credential, from_public };
        let shown = asker.answer(challenge).await?.ok_or_else(|| Failure::Anonymous {
            registry: self.reference.registry().to_owned(),
            looked: self.access.credentials.describe(),
        })?;
        self.access.redactor.add(&shown.secrets);
        Ok(shown.header)
    }

    async fn credential(&self) -> Result<Option<&Credential>, Failure> {
        let find = || async {
            let Access { credentials, programs, .. } = self.access;
            let found = credentials.find(programs, self.reference).await.map_err(Failure::Credentials)?;
            if let Some(credential) = &found {
                self.access.redactor.add(&credential.secrets());
            }
            Ok::<_, Failure>(found)
        };
        Ok(self.credential.get_or_try_init(find).await?.as_ref())
    }

    async fn judged(&self, response: Response) -> Result<Response, Miss> {
        let status = response.status().as_u16();
        if response.status().is_success() {
            return Ok(response);
        }
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = header.and_then(|value| retry_after(value, std::time::SystemTime::now()));
        let body = explained(response).await;
        let failure = match status {
            404 => Failure::Missing(body),
            401 | 403 => Failure::Denied { who: self.who(), body },
            _ => Failure::Status { status, body },
        };
        Err(Miss { failure, retry_after })
    }

    fn who(&self) -> String {
        let credential = self.credential.get().and_then(Option::as_ref);
        credential.map_or_else(|| "a request without a login".to_owned(), Credential::describe)
    }
}

/// Returns `None` for what the registry does not have.
pub(super) fn unless_missing<T>(found: Result<T, OciError>) -> Result<Option<T>, OciError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(OciError { failure: Failure::Missing(_), .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn challenge(response: &Response) -> Option<Challenge> {
    let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
    Challenge::parse(headers.filter_map(|value| value.to_str().ok()))
}

// Small documents of a registry: manifests, indexes, signature blobs, and lists of tags.

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
    let registry = Registry::new(reference, PULL, access)?;
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
