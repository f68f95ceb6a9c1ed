//! One call of a gate, from its arguments to an answer, regardless of failing workers. A call that may have changed
//! something is never repeated.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Attempt, Ended, Outgoing};
use super::fleet::{Lease, NoPlace, Wanted};
use super::{Connected, Gate};
use crate::LinkError;
use crate::claims::{Claim, ClaimState};
use crate::message::{About, Known};
use crate::subjects::definition;
use async_trait::async_trait;
use haft_core::call::{ToolCall, ToolDef, ToolResult};
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::{Context, Subject, Tool, ToolError};
use haft_manifest::Label;
use serde_json::Value;

/// The maximum number of repetitions of a call that certainly did not run, because its worker rejected it or
/// disconnected first. Each repetition needs a free place.
const MAX_UNRUN: usize = 8;

/// The maximum number of reports of workers that they are full although they seemed to have a place, because other
/// gates were faster.
const MAX_FULL: usize = 64;

/// Time limit for a server that does not answer whether a call has begun.
const GIVING_UP: Duration = Duration::from_secs(10);

/// The wait before asking the server again.
const AGAIN: Duration = Duration::from_millis(200);

/// The counts of failed attempts.
#[derive(Default)]
struct Tries {
    full: usize,
    unrun: usize,
    /// The number of workers that died during the call, which only reads.
    deaths: usize,
}

impl Outgoing<'_> {
    pub(super) async fn run(&self) -> Result<ToolResult, ToolError> {
        let _counted = self.gate.count();
        let connected = self.gate.connected().await.map_err(|error| self.not_connected(&error))?;
        let about = About::outgoing(self.context);
        let about = if about.fits() { about } else { About::default() };
        let mut tries = Tries::default();
        loop {
            let lease = self.lease().await?;
            let (worker, reads) = (lease.worker.clone(), lease.reads);
            let attempt = Attempt::new(self, connected, &about, lease);
            let attempt = attempt.map_err(|error| self.not_connected(&error))?;
            let id = attempt.id().to_owned();
            self.context.notes.decision(|| format!("sent to worker `{worker}` as {id}"));
            match attempt.run().await? {
                Ended::Answered(result) => return Ok(result),
                Ended::Full => {
                    tries.full += 1;
                    if tries.full > MAX_FULL {
                        return Err(self.no_place(NoPlace::Full(tries.full)));
                    }
                }
                Ended::Unrun(why) => tries.unrun(self, &why)?,
                Ended::Lost if reads => tries.death(self, worker.name.as_str())?,
                Ended::Lost => {
                    self.give_up(connected, &id, worker.name.as_str()).await?;
                    tries.unrun(self, &format!("worker `{worker}` disconnected before it ran the call"))?;
                }
            }
        }
    }

    /// Waits for a place.
    async fn lease(&self) -> Result<Lease, ToolError> {
        tokio::select! {
            biased;
            lease = self.gate.fleet.lease(self.wanted) => lease.map_err(|no_place| self.no_place(no_place)),
            () = self.context.cancel.cancelled() => Err(self.error("was cancelled before a worker received \
                it")),
        }
    }

    /// Claims a call whose worker is gone, so that it never runs; fails if the call has begun. Waits for a server
    /// that is restarting.
    async fn give_up(&self, connected: &Connected, id: &str, worker: &str) -> Result<(), ToolError> {
        let given_up = async {
            loop {
                match Claim::give_up(&connected.link, (worker, id), &connected.name, &self.wanted.tool).await
                {
                    Ok(before) => return before,
                    Err(error) => tracing::debug!("{error}"),
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        match tokio::time::timeout(GIVING_UP, given_up).await {
            Ok(None) => Ok(()),
            Ok(state) => Err(self.unknown(id, worker, state)),
            Err(_) => Err(self.unknown(id, worker, None)),
        }
    }

    fn unknown(&self, id: &str, worker: &str, state: Option<ClaimState>) -> ToolError {
        let name = &self.wanted.tool;
        let text = match state {
            Some(ClaimState::Ended) => format!(
                "`{name}` ran on worker `{worker}`, which disconnected before it sent the answer; the result \
                 is unknown"
            ),
            Some(_) => format!(
                "`{name}` started on worker `{worker}`, which disconnected: the outcome is unknown. haft \
                 does not repeat the call"
            ),
            None => format!(
                "`{name}` was sent to worker `{worker}`, which disconnected; the server does not know \
                 whether it started: the outcome is unknown. haft does not repeat the call"
            ),
        };
        ToolError::Host(format!(
            "{text}\nhint: check the effects before you repeat the call; `haft log --nats` shows the \
             worker's record of call {id}"
        ))
    }

    fn not_connected(&self, error: &LinkError) -> ToolError {
        self.error(&format!("did not run and can be repeated: {error}"))
    }

    fn no_place(&self, no_place: NoPlace) -> ToolError {
        let on = Label::listed(&self.wanted.on);
        let why = match no_place {
            NoPlace::NoWorker => format!(
                "no worker labelled {on} has it. Start one: `haft worker` with the same program.toml and \
                 program.lock"
            ),
            NoPlace::Full(count) => format!("all places of the {count} workers that have it are in use"),
            NoPlace::TooMany => "too many calls are waiting for workers".to_owned(),
        };
        self.error(&format!("did not run and can be repeated later: {why}"))
    }
}

impl Tries {
    /// Counts a call that did not run; fails at the limit.
    fn unrun(&mut self, call: &Outgoing<'_>, why: &str) -> Result<(), ToolError> {
        self.unrun += 1;
        if self.unrun < MAX_UNRUN {
            return Ok(());
        }
        Err(call.error(&format!("did not run and can be repeated later: {why}")))
    }

    /// Counts a worker that died during the call, which only reads: it is repeated once.
    fn death(&mut self, call: &Outgoing<'_>, worker: &str) -> Result<(), ToolError> {
        self.deaths += 1;
        if self.deaths < 2 {
            return Ok(());
        }
        let why = format!("was not answered: two workers disconnected while they ran it, last `{worker}`");
        Err(call.error(&why))
    }
}

/// The extra time of a call at the gate: for waiting for a place, and for the network.
const MARGIN: Duration = Duration::from_secs(30);

/// A tool on workers.
pub struct NatsTool {
    gate: Arc<Gate>,
    def: ToolDef,
    component: Option<String>,
    /// The local instance of the tool, which describes its calls. It is never called.
    local: Option<Arc<dyn Tool>>,
    wanted: Arc<Wanted>,
}

impl NatsTool {
    /// Creates the remote form of the tool `local`, on workers with one of the labels `on` that have an equal
    /// definition and, for a component, equal bytes.
    pub fn new(gate: &Arc<Gate>, local: Arc<dyn Tool>, on: &[Label]) -> Self {
        let (def, component) = (local.def().clone(), local.digest().map(str::to_owned));
        Self { local: Some(local), ..Self::of(gate, def, component, on) }
    }

    /// Creates a tool that only workers have.
    pub fn known(gate: &Arc<Gate>, known: &Known, on: &[Label]) -> Self {
        Self::of(gate, known.definition_of(), known.component.clone(), on)
    }

    fn of(gate: &Arc<Gate>, def: ToolDef, component: Option<String>, on: &[Label]) -> Self {
        let definition = definition(&def, component.as_deref());
        let wanted = gate.wants(Wanted { tool: def.name.clone(), definition, on: on.into() });
        Self { gate: gate.clone(), def, component, local: None, wanted }
    }

    /// Returns the limits of a call at the gate for `limits` at the worker.
    pub fn limits(limits: Limits) -> Limits {
        Limits { time: limits.time.saturating_add(MARGIN), ..limits }
    }
}

#[async_trait]
impl Tool for NatsTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        Outgoing { gate: &self.gate, wanted: &self.wanted, call, context }.run().await
    }

    fn refusal(&self, arguments: &Value) -> Option<ToolError> {
        self.local.as_ref()?.refusal(arguments)
    }

    fn subject(&self, arguments: &Value) -> Subject {
        self.local.as_ref().map_or_else(|| Subject::arguments(arguments), |local| local.subject(arguments))
    }

    fn may_have_effects(&self, grant: &Grant) -> bool {
        // The effects at the worker depend on its grants; here only the journal uses this.
        self.local.as_ref().is_none_or(|local| local.may_have_effects(grant))
    }

    fn has_fixed_rights(&self) -> bool {
        // The rights of the worker.
        true
    }

    fn digest(&self) -> Option<&str> {
        self.component.as_deref()
    }
}
