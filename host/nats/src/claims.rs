//! Claims: who runs a call that may change anything, written down before it runs, at the server. A call is claimed once:
//! by the worker that runs it, or by the gate that gives it up, and whoever comes second does not. It stands below the
//! worker's name, where the server lets no other worker write.

use async_nats::jetstream::kv::{CreateErrorKind, Operation};
use serde::{Deserialize, Serialize};

use super::error::{LinkError, unusable};
use super::link::{Link, STORE};
use super::message::{encode, now};
use super::subjects;

/// What a claim says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) state: ClaimState,
    /// The worker that runs the call, or the gate that gave it up.
    pub(crate) by: String,
    pub(crate) tool: String,
    /// Milliseconds since 1970.
    pub(crate) time: u64,
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClaimState {
    /// It runs, or its worker died in it.
    Running,
    /// It ended.
    Ended,
    /// It was given up before any worker claimed it, and will never run.
    GivenUp,
    /// Something that a later version knows.
    #[serde(other)]
    Other,
}

/// What came of an attempt to claim a call.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// It is claimed, by this.
    Now,
    /// It was before.
    Before,
}

impl Claim {
    pub(crate) fn new(state: ClaimState, by: &str, tool: &str) -> Self {
        Self { state, by: by.to_owned(), tool: tool.to_owned(), time: now() }
    }

    /// Makes the claim of the call `id` of `worker`, unless there is one.
    pub(crate) async fn make(&self, link: &Link, (worker, id): (&str, &str)) -> Result<Claimed, LinkError> {
        let what = "a call cannot be claimed";
        let store = link.claims().await?;
        let made =
            tokio::time::timeout(STORE, store.create(subjects::claim(worker, id), encode(self).into())).await;
        match made.map_err(|late| unusable(what, &late))? {
            Ok(_) => Ok(Claimed::Now),
            Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Ok(Claimed::Before),
            Err(error) => Err(unusable(what, &error)),
        }
    }

    /// Claims `call`, a worker and an id, for the gate `by`, so that it never runs. What its claim says, where a worker was faster.
    pub(crate) async fn give_up(
        link: &Link,
        call: (&str, &str),
        by: &str,
        tool: &str,
    ) -> Result<Option<ClaimState>, LinkError> {
        match Self::new(ClaimState::GivenUp, by, tool).make(link, call).await? {
            Claimed::Now => Ok(None),
            Claimed::Before => {
                let state = Self::read(link, call).await?.map_or(ClaimState::Other, |claim| claim.state);
                // Nobody else gives this call up: an earlier attempt did, whose answer was lost.
                Ok(Some(state).filter(|state| *state != ClaimState::GivenUp))
            }
        }
    }

    /// Notes what became of a call that was claimed. Nobody waits for it: without it the claim says that the call runs,
    /// and nobody knows what came of it.
    pub(crate) async fn note(&self, link: &Link, (worker, id): (&str, &str)) {
        let Ok(store) = link.claims().await else { return };
        let subject = format!("$KV.{}.{}", store.name, subjects::claim(worker, id));
        if let Err(error) = link.client.publish(subject, encode(self).into()).await {
            tracing::debug!("the end of a call is not noted in its claim: {error}");
        }
    }

    /// What the claim of the call `id` says, if there is one.
    pub(crate) async fn read(link: &Link, (worker, id): (&str, &str)) -> Result<Option<Self>, LinkError> {
        let what = "a claim cannot be read";
        let store = link.claims().await?;
        let entry = tokio::time::timeout(STORE, store.entry(subjects::claim(worker, id))).await;
        let entry = entry.map_err(|late| unusable(what, &late))?.map_err(|error| unusable(what, &error))?;
        let entry = entry.filter(|entry| entry.operation == Operation::Put);
        Ok(entry.and_then(|entry| serde_json::from_slice(&entry.value).ok()))
    }
}
