//! Requests to one repository of a registry: authenticates on demand and repeats requests after transient
//! errors. Knows nothing of the content.

use std::time::Duration;

use reqwest::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Response, Url};
use tokio::sync::OnceCell;

use super::credential::Credential;
use super::credentials::Access;
use super::error::{Failure, OciError};
use super::exchange::{Ask, Asking, exchange, explained, is_public, same_origin};
use super::reference::Reference;
use super::token::{Asker, Challenge};
use haft_core::net::retry_after;
use haft_core::sync::Lock;

/// Time limit for the start of a response.
pub(super) const WITHIN: Duration = Duration::from_mins(1);

/// The intended access to a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Pull,
    Push,
}

/// The connection to one repository of a registry.
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
    /// Creates the connection. Sends nothing.
    pub(super) fn new(
        reference: &'a Reference,
        action: Action,
        access: &'a Access,
    ) -> Result<Self, OciError> {
        let failed = |failure: Failure| failure.into_error(reference, 1);
        let secure = !reference.is_loopback();
        let scheme = if secure { "https" } else { "http" };
        let base = Url::parse(&format!("{scheme}://{}/", reference.endpoint()));
        let base = base.map_err(|error| failed(Failure::Connect(error.to_string())))?;
        let rights = match action {
            Action::Pull => "pull",
            Action::Push => "pull,push",
        };
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

    /// Adds the reference to a failure.
    pub(super) fn failed(&self, failure: Failure) -> OciError {
        failure.into_error(self.reference, 1)
    }

    /// Sends a request until it succeeds, fails permanently, or the attempts are used up.
    pub(super) async fn send(&self, ask: &Ask, within: Duration) -> Result<Response, OciError> {
        let mut attempts = 1;
        loop {
            // Boxed, which keeps the futures of all callers small.
            let miss = match Box::pin(self.attempt(ask, within)).await {
                Ok(response) => return Ok(response),
                Err(miss) => miss,
            };
            let failure = miss.failure.cleaned(&self.access.redactor);
            let delay = self.delay(attempts, &failure, miss.retry_after);
            let Some(delay) = delay else { return Err(failure.into_error(self.reference, attempts)) };
            tracing::info!("{}; trying again in {delay:.1?}", failure.into_error(self.reference, attempts));
            tokio::time::sleep(delay).await;
            attempts += 1;
        }
    }

    /// Returns the delay after the failed attempt number `attempt`; `None` after the last one.
    pub(super) fn delay(&self, attempt: u32, failure: &Failure, asked: Option<Duration>) -> Option<Duration> {
        failure.is_transient().then(|| self.access.retry.wait(attempt, asked))?
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

    /// Returns the `Authorization` header for a challenge.
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

    /// Returns the response if its status is a success.
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

    /// Describes the credentials of the requests, for messages.
    fn who(&self) -> String {
        let credential = self.credential.get().and_then(Option::as_ref);
        credential.map_or_else(|| "a request without a login".to_owned(), Credential::describe)
    }
}

fn challenge(response: &Response) -> Option<Challenge> {
    let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
    Challenge::parse(headers.filter_map(|value| value.to_str().ok()))
}
