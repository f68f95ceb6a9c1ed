//! A call at a worker: parsed, checked, claimed if it may change anything, run, answered.

use std::sync::Arc;

use async_nats::{Message, Subject};
use async_trait::async_trait;
use haft_core::call::{ToolCall, ToolResult};
use haft_core::event::Events;
use haft_core::tool::{Approvals, Approver, Decision, Question, Session};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::places::Taken;
use super::readings::Read;
use super::{Worker, tool_of};
use crate::claims::{Claim, ClaimState};
use crate::link::Link;
use crate::message::{Reply, Request, TOLD, Told, encode, now};
use crate::payload::{MAX_PAYLOAD, Payload, received};
use crate::subjects::Subjects;

/// The maximum age of a call in milliseconds: a fraction of the age of claims, so that a call delayed in the buffer
/// of a suspended process never runs after its claim has expired. Clocks differ by less.
const MAX_AGE: u64 = 30 * 60 * 1000;

/// The maximum number of queued events of a call; more are dropped.
const MAX_TOLD: usize = 256;

impl Worker {
    pub(super) async fn run_call(self: Arc<Self>, message: Message, taken: Taken) {
        let Some(reply) = message.reply.clone() else { return };
        let bytes = match received(&self.link, &self.id.name, &message, MAX_PAYLOAD).await {
            Ok(bytes) => bytes,
            Err(error) => return self.unrun(reply, error.to_string()).await,
        };
        let request = match serde_json::from_slice::<Request<'_>>(&bytes) {
            Ok(request) => request,
            Err(error) => return self.unrun(reply, format!("it cannot be read: {error}")).await,
        };
        if request.tool != tool_of(&message) {
            return self.unrun(reply, "it was sent as a call to another tool".into()).await;
        }
        let Some(running) = Running::begin(&self, &request.id) else {
            // A repeated request for the same call.
            return;
        };
        match self.admit(&request, Subjects::base_of(&message.subject)).await {
            Ok((read, is_claimed)) => {
                let result = self.dispatch(&read, &request, (&reply, running.cancel.clone())).await;
                let id = request.id.clone().into_owned();
                self.answer(reply, (id, result), taken).await;
                drop(running);
                if is_claimed {
                    let claim = Claim::new(ClaimState::Ended, &self.settings.name, &request.tool);
                    claim.note(&self.link, (&self.id.name, &request.id)).await;
                }
            }
            Err(why) => {
                drop(taken);
                self.unrun(reply, why).await;
            }
        }
    }

    /// Returns the reading for the call, and whether the call was claimed; otherwise the reason why it may not run
    /// here.
    async fn admit(&self, request: &Request<'_>, base: &str) -> Result<(Arc<Read>, bool), String> {
        let age = now().abs_diff(request.sent);
        if age > MAX_AGE {
            return Err(format!("it is {} minutes old by this worker's clock", age / 60_000));
        }
        let tool = request.tool.as_ref();
        let (mut has_tool, mut found) = (false, None);
        for read in self.readings.of(base) {
            let Some(known) = read.known.get(tool) else { continue };
            has_tool = true;
            if known.definition == request.definition {
                found = Some((known.reads, read.clone()));
                break;
            }
        }
        let Some((reads, read)) = found else {
            return Err(if has_tool {
                format!("its `{tool}` has another definition than the caller's")
            } else {
                format!("it has no tool `{tool}`")
            });
        };
        if reads {
            return Ok((read, false));
        }
        let claim = Claim::new(ClaimState::Running, &self.settings.name, &request.tool);
        match claim.make(&self.link, (&self.id.name, &request.id)).await {
            Ok(true) => Ok((read, true)),
            Ok(false) => Err("the call is already claimed".into()),
            Err(error) => Err(format!("the call cannot be claimed: {error}")),
        }
    }

    async fn dispatch(
        &self,
        read: &Read,
        request: &Request<'_>,
        (reply, cancel): (&Subject, CancellationToken),
    ) -> ToolResult {
        let call = ToolCall {
            id: request.id.clone().into_owned(),
            tool: request.tool.clone().into_owned(),
            arguments: request.arguments.clone().into_owned(),
        };
        let (events, telling) = if request.told { tell(&self.link, reply) } else { Default::default() };
        let session = Session {
            events,
            cancel,
            approvals: Approvals::by(AtTheGate(request.approved)),
            ..read.session.clone()
        };
        let session = request.about.applied_to(session);
        let result = read.toolbox.dispatch(call, &session).await;
        drop(session);
        if let Some(telling) = telling {
            // Events precede the answer.
            let _ = telling.await;
        }
        result
    }

    /// Sends the answer. The place is released first, because the caller may need it next.
    async fn answer(&self, reply: Subject, (id, result): (String, ToolResult), taken: Taken) {
        drop(taken);
        let busy = self.places.busy();
        let payload = match Payload::new(&self.link, &self.id.name, encode(&Reply::Answer { result, busy }))
            .await
        {
            Ok(payload) => payload,
            Err(error) => {
                let result =
                    ToolResult::error(format!("the call ran, but its answer cannot be sent: {error}"));
                // A text of this length fits into any message.
                match Payload::new(&self.link, &self.id.name, encode(&Reply::Answer { result, busy })).await {
                    Ok(payload) => payload,
                    Err(_) => return,
                }
            }
        };
        self.answers.lock().put(id, reply.clone(), payload.clone());
        if let Err(error) = payload.send(&self.link, reply, None).await {
            tracing::warn!("an answer was not sent: {error}");
        }
    }

    async fn unrun(&self, reply: Subject, why: String) {
        let _ = self.link.client.publish(reply, encode(&Reply::Unrun(why)).into()).await;
    }
}

/// A running call, for status requests and cancellation.
struct Running {
    worker: Arc<Worker>,
    id: String,
    cancel: CancellationToken,
}

impl Running {
    /// Registers a call; `None` if it is running or was answered.
    fn begin(worker: &Arc<Worker>, id: &str) -> Option<Self> {
        let mut running = worker.running.lock();
        if running.contains_key(id) || worker.answers.lock().get(id).is_some() {
            return None;
        }
        let cancel = CancellationToken::new();
        running.insert(id.to_owned(), cancel.clone());
        drop(running);
        Some(Self { worker: worker.clone(), id: id.to_owned(), cancel })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.worker.running.lock().remove(&self.id);
    }
}

/// Returns events that are sent to the caller, in order, as fast as the connection permits.
fn tell(link: &Arc<Link>, reply: &Subject) -> (Events, Option<tokio::task::JoinHandle<()>>) {
    let (sender, mut waiting) = mpsc::channel::<Told>(MAX_TOLD);
    let (client, subject) = (link.client.clone(), format!("{reply}.{TOLD}"));
    let most = client.max_payload();
    let telling = tokio::spawn(async move {
        while let Some(told) = waiting.recv().await {
            let bytes = encode(&told);
            if bytes.len() < most {
                let _ = client.publish(subject.clone(), bytes.into()).await;
            }
        }
    });
    let events = Events::during_calls(move |event| {
        if let Some(told) = Told::of(event) {
            // Events may be dropped; the answer is complete without them.
            let _ = sender.try_send(told);
        }
    });
    (events, Some(telling))
}

/// The approval given at the gate, which sends only whether a user was asked. If this machine's program.toml
/// requires an approval that the gate did not, the call is refused.
struct AtTheGate(bool);

#[async_trait]
impl Approver for AtTheGate {
    async fn ask(&self, _: &Question) -> Decision {
        if self.0 {
            Decision::Approved
        } else {
            Decision::Unasked(
                "this worker's program.toml requires it, but nobody was asked at the caller".into(),
            )
        }
    }
}
