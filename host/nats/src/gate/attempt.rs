//! One attempt at a call: sent to one worker, until the worker answers or is gone. Asks for the status of a call
//! whose answer may have been lost.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Message, StatusCode, Subscriber};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::StreamExt;

use super::fleet::{Fleet, Lease, Wanted};
use super::{Connected, Gate};
use crate::LinkError;
use crate::claims::Claim;
use crate::link::{Link, State};
use crate::message::{About, Ask, Reply, Request, Status, TOLD, Told, encode, now, random_name};
use crate::payload::{MAX_PAYLOAD, Payload, received};
use haft_core::call::{ToolCall, ToolResult};
use haft_core::sync::Lock;
use haft_core::tool::{Context, ToolError};

/// Interval of requests for the status of a call: an answer is lost only if a connection broke.
const AFTER: Duration = Duration::from_secs(5);

/// The maximum number of reports of a worker that a claimed call is unknown: the first request may have come too
/// early.
const MAX_UNKNOWN: usize = 3;

pub(super) struct Attempt<'a> {
    outgoing: &'a Outgoing<'a>,
    connected: &'a Connected,
    about: &'a About,
    lease: Lease,
    id: String,
    expected: Expected,
    /// Whether the call needs no withdrawal.
    has_ended: bool,
}

pub(super) enum Ended {
    Answered(ToolResult),
    /// The worker has no free place; the call did not run.
    Full,
    /// The call did not run, for this reason.
    Unrun(String),
    /// The worker is gone, or does not know a claimed call.
    Lost,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        outgoing: &'a Outgoing<'a>,
        connected: &'a Connected,
        about: &'a About,
        lease: Lease,
    ) -> Result<Self, LinkError> {
        let expected = connected.inbox.expect(&lease.worker.name)?;
        Ok(Self { outgoing, connected, about, lease, id: random_name()?, expected, has_ended: false })
    }

    /// Returns the unique id of the call.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) async fn run(mut self) -> Result<Ended, ToolError> {
        let state = self.connected.link.state();
        self.send().await?;
        let ended = self.wait(state).await;
        self.has_ended = true;
        ended
    }

    async fn send(&self) -> Result<(), ToolError> {
        let Outgoing { wanted, call, context, .. } = self.outgoing;
        let request = Request {
            id: Cow::Borrowed(&self.id),
            tool: Cow::Borrowed(&wanted.tool),
            definition: Cow::Borrowed(&wanted.definition),
            sent: now(),
            told: context.events.has_listener(),
            approved: context.approved,
            about: Cow::Borrowed(self.about),
            arguments: Cow::Borrowed(&call.arguments),
        };
        let link = &self.connected.link;
        let sent = async {
            let worker = &self.lease.worker;
            let payload = Payload::new(link, &worker.name, encode(&request)).await?;
            let subject = self.connected.subjects.call(worker, &wanted.tool, &self.lease.label);
            payload.send(link, subject, Some(self.expected.subject.clone())).await
        };
        sent.await.map_err(|error| self.outgoing.error(&format!("did not run and can be repeated: {error}")))
    }

    async fn wait(&mut self, mut state: watch::Receiver<State>) -> Result<Ended, ToolError> {
        let cancel = self.outgoing.context.cancel;
        let (mut is_cancelled, mut unknown) = (false, 0);
        loop {
            tokio::select! {
                biased;
                last = &mut self.expected.last => match last {
                    Ok(message) => return self.last(&message).await,
                    Err(_) => return Ok(Ended::Lost),
                },
                told = self.expected.told.recv() => {
                    let Some(message) = told else { return Ok(Ended::Lost) };
                    self.tell(&message);
                    continue;
                }
                () = self.lease.gone.cancelled() => return Ok(Ended::Lost),
                () = cancel.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    cancel_at(&self.connected.link, self.ask_subject(), &self.id).await;
                    continue;
                }
                () = Link::reconnected(&mut state) => {}
                () = tokio::time::sleep(AFTER) => {}
            }
            if self.is_unknown_there().await {
                if self.never_runs().await {
                    let why = format!("worker `{}` never received it", self.lease.worker);
                    return Ok(Ended::Unrun(why));
                }
                unknown += 1;
                if unknown == MAX_UNKNOWN {
                    return Ok(Ended::Lost);
                }
            }
        }
    }

    /// Interprets the final message about the call.
    async fn last(&self, message: &Message) -> Result<Ended, ToolError> {
        let worker = &self.lease.worker;
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            // The worker accepts no more calls. Its silence shows whether its running calls continue.
            self.fleet().takes_none(worker);
            return Ok(Ended::Unrun(format!("worker `{worker}` is gone")));
        }
        let unreadable = |why: String| {
            let text = format!("ran on worker `{worker}`, but its answer cannot be read: {why}");
            self.outgoing.error(&text)
        };
        let bytes = received(&self.connected.link, &worker.name, message, MAX_PAYLOAD).await;
        let bytes = bytes.map_err(|error| unreadable(error.to_string()))?;
        match serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))? {
            Reply::Answer { result, busy } => {
                self.fleet().told(worker, busy);
                Ok(Ended::Answered(result))
            }
            Reply::Full => {
                self.fleet().is_full(worker);
                Ok(Ended::Full)
            }
            Reply::Unrun(why) => Ok(Ended::Unrun(format!("worker `{worker}` refuses it: {why}"))),
        }
    }

    fn fleet(&self) -> &Arc<Fleet> {
        &self.outgoing.gate.fleet
    }

    fn tell(&self, message: &Message) {
        if let Ok(told) = serde_json::from_slice::<Told>(&message.payload) {
            told.emit(self.outgoing.context.events, &self.outgoing.call.id);
        }
    }

    /// Returns whether a call that its worker does not know will never run. The request may still be on its way,
    /// behind the question: the claim decides which is true. A call that only reads may run twice.
    async fn never_runs(&self) -> bool {
        let Self { outgoing, connected, lease, id, .. } = self;
        lease.reads
            || matches!(
                Claim::give_up(
                    &connected.link,
                    (&lease.worker.name, id),
                    &connected.name,
                    &outgoing.wanted.tool
                )
                .await,
                Ok(None)
            )
    }

    /// Returns whether the worker reports the call as unknown; it sends a lost answer again.
    async fn is_unknown_there(&self) -> bool {
        let answer = self.connected.ask(&self.lease.worker, &Ask::Status(self.id.clone())).await;
        let status = answer.and_then(|answer| serde_json::from_slice::<Status>(&answer).ok());
        status == Some(Status::Unknown)
    }

    fn ask_subject(&self) -> String {
        self.connected.subjects.ask(&self.lease.worker)
    }
}

async fn cancel_at(link: &Link, subject: String, id: &str) {
    let _ = link.client.publish(subject, encode(&Ask::Cancel(id.to_owned())).into()).await;
}

/// Withdraws the call if its future is dropped early.
impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.has_ended
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (link, subject) = (self.connected.link.clone(), self.ask_subject());
            let id = std::mem::take(&mut self.id);
            runtime.spawn(async move { cancel_at(&link, subject, &id).await });
        }
    }
}

/// A call to a worker.
pub(super) struct Outgoing<'a> {
    pub(super) gate: &'a Gate,
    pub(super) wanted: &'a Wanted,
    pub(super) call: &'a ToolCall,
    pub(super) context: &'a Context<'a>,
}

impl Outgoing<'_> {
    /// Returns an error of haft about this call.
    pub(super) fn error(&self, end: &str) -> ToolError {
        ToolError::Host(format!("`{}` {end}", self.wanted.tool))
    }
}

// The inbox for answers: one subscription for all calls of a gate, which dispatches messages to the waiting calls.
// Drops messages without a waiting call, and messages from another worker than the one asked.

/// The maximum number of queued events of a call; more are dropped.
const MAX_TOLD: usize = 256;

/// The waiting calls of a gate.
pub(super) struct Inbox {
    /// The prefix of the answer subjects of gates.
    base: String,
    gate: String,
    /// The waiting calls by subject: it contains the name of the worker and a random part that cannot be guessed.
    waiting: Lock<HashMap<String, Waiter>>,
}

struct Waiter {
    last: Option<oneshot::Sender<Message>>,
    told: mpsc::Sender<Message>,
}

/// A waiting call: receives the final message and the events before it.
pub(super) struct Expected {
    pub(super) subject: String,
    pub(super) last: oneshot::Receiver<Message>,
    pub(super) told: mpsc::Receiver<Message>,
    inbox: Arc<Inbox>,
}

impl Inbox {
    /// Creates the inbox of `gate`, with answer subjects below `base`.
    pub(super) fn new(base: String, gate: &str) -> Self {
        Self { base, gate: gate.to_owned(), waiting: Lock::default() }
    }

    /// Returns the subject to subscribe to.
    pub(super) fn all(&self) -> String {
        format!("{}.*.{}.>", self.base, self.gate)
    }

    /// Waits for an answer of `worker` from now on.
    pub(super) fn expect(self: &Arc<Self>, worker: &str) -> Result<Expected, LinkError> {
        let subject = format!("{}.{worker}.{}.{}", self.base, self.gate, random_name()?);
        let (last, expected) = oneshot::channel();
        let (told, telling) = mpsc::channel(MAX_TOLD);
        self.waiting.lock().insert(subject.clone(), Waiter { last: Some(last), told });
        Ok(Expected { subject, last: expected, told: telling, inbox: self.clone() })
    }

    /// Dispatches incoming messages.
    pub(super) async fn run(self: Arc<Self>, mut messages: Subscriber) {
        while let Some(message) = messages.next().await {
            self.deliver(message);
        }
    }

    fn deliver(&self, message: Message) {
        let mut waiting = self.waiting.lock();
        if let Some(waiter) = waiting.get_mut(message.subject.as_str()) {
            if let Some(last) = waiter.last.take() {
                let _ = last.send(message);
            }
        } else if let Some((subject, TOLD)) = message.subject.as_str().rsplit_once('.')
            && let Some(waiter) = waiting.get_mut(subject)
        {
            // A slow receiver misses events.
            let _ = waiter.told.try_send(message);
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.inbox.waiting.lock().remove(&self.subject);
    }
}
