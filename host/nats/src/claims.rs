//! Claims: the record at the server of who runs a call that may change anything, written before the call runs. A
//! call is claimed once: by the worker that runs it, or by the gate that gives it up; the second attempt fails. The
//! key is below the worker's name, where the server lets no other worker write.

use async_nats::jetstream::kv::Operation;
use serde::{Deserialize, Serialize};

use super::link::{Link, STORE};
use super::message::{encode, now};
use super::stores::create;
use super::{LinkError, subjects, within};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) state: ClaimState,
    /// The worker that runs the call, or the gate that gave it up.
    pub(crate) by: String,
    pub(crate) tool: String,
    /// Milliseconds since 1970.
    pub(crate) time: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClaimState {
    /// The call runs, or its worker died during it.
    Running,
    Ended,
    /// The call was given up before any worker claimed it, and will never run.
    GivenUp,
    /// A state of a later version.
    #[serde(other)]
    Other,
}

impl Claim {
    pub(crate) fn new(state: ClaimState, by: &str, tool: &str) -> Self {
        Self { state, by: by.to_owned(), tool: tool.to_owned(), time: now() }
    }

    /// Claims the call `id` of `worker`, unless it is claimed. Returns whether this attempt claimed it.
    pub(crate) async fn make(&self, link: &Link, (worker, id): (&str, &str)) -> Result<bool, LinkError> {
        let (store, key) = (link.claims().await?, subjects::claim(worker, id));
        create(store, &key, encode(self).into(), "a call cannot be claimed").await
    }

    /// Claims `call`, a worker and an id, for the gate `by`, so that it never runs. Returns the state of the
    /// existing claim if a worker was faster.
    pub(crate) async fn give_up(
        link: &Link,
        call: (&str, &str),
        by: &str,
        tool: &str,
    ) -> Result<Option<ClaimState>, LinkError> {
        if Self::new(ClaimState::GivenUp, by, tool).make(link, call).await? {
            return Ok(None);
        }
        let state = Self::read(link, call).await?.map_or(ClaimState::Other, |claim| claim.state);
        // Only this gate gives the call up: its earlier attempt succeeded, and the response was lost.
        Ok(Some(state).filter(|state| *state != ClaimState::GivenUp))
    }

    /// Records the state of a claimed call without waiting. If the message is lost, the claim stays `Running`, and
    /// the outcome of the call stays unknown.
    pub(crate) async fn note(&self, link: &Link, (worker, id): (&str, &str)) {
        let Ok(store) = link.claims().await else { return };
        let subject = format!("$KV.{}.{}", store.name, subjects::claim(worker, id));
        if let Err(error) = link.client.publish(subject, encode(self).into()).await {
            tracing::debug!("the end of a call is not recorded in its claim: {error}");
        }
    }

    /// Reads the claim of the call `id`, if there is one.
    pub(crate) async fn read(link: &Link, (worker, id): (&str, &str)) -> Result<Option<Self>, LinkError> {
        let entry = link.claims().await?.entry(subjects::claim(worker, id));
        let entry = within(STORE, "a claim cannot be read", entry)
            .await?
            .filter(|entry| entry.operation == Operation::Put);
        Ok(entry.and_then(|entry| serde_json::from_slice(&entry.value).ok()))
    }
}
