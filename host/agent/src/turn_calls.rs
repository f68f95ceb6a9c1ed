//! Runs the calls of a turn and gives every one an answer: also those that cannot be run and those that a cancellation
//! overtakes. Those that only read and stand next to each other run at the same time, and so do those of agents; it refuses
//! to let any other call overtake one that the model made before it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use super::history::OpenTurn;
use super::session::SessionError;
use crate::loop_guard::LoopGuard;
use crate::provider::RequestedCall;
use crate::window::READER;
use haft_core::call::{ToolCall, ToolResult};
use haft_core::tool::{Entry, Notes, Session, Toolbox, Whole};

/// Calls of one turn that are run: a model that asks for more has lost its way.
const MAX_CALLS: usize = 64;

/// Calls that run at the same time: as many connections as a browser opens to one server, and few enough instances of
/// components for any machine.
const MAX_AT_ONCE: usize = 8;

/// The work of one run.
pub(super) struct TurnCalls<'a> {
    toolbox: Arc<Toolbox>,
    session: &'a Session,
    guard: LoopGuard,
    /// Whether the model can open what is kept of a long answer.
    reads: bool,
}

/// What became of a call.
struct Made<'c> {
    call: Cow<'c, ToolCall>,
    result: ToolResult,
    /// Whether a tool was asked.
    is_run: bool,
}

impl<'a> TurnCalls<'a> {
    pub(super) fn new(toolbox: Arc<Toolbox>, session: &'a Session, max_repeats: u32) -> Self {
        let reads = toolbox.find(READER).is_some();
        Self { toolbox, session, guard: LoopGuard::new(max_repeats), reads }
    }

    /// Calls are of these tools from now on.
    pub(super) fn renew(&mut self, toolbox: Arc<Toolbox>) {
        self.toolbox = toolbox;
    }

    /// Answers the calls of `turn` that are not answered yet.
    pub(super) async fn run(&mut self, turn: &Arc<OpenTurn>) -> Result<(), SessionError> {
        let session = turn.session(self.session);
        let mut next = 0;
        while next < turn.requested().len() {
            let count = self.parallel_prefix(turn.requested().get(next..).unwrap_or_default());
            let waiting = (next..next + count).filter(|index| turn.is_waiting(*index));
            let slots = Semaphore::new(MAX_AT_ONCE);
            let this = &*self;
            let calls = waiting.map(|index| this.make(index, turn, &session, &slots));
            for made in join_all(calls).await {
                self.note(&made?);
            }
            next += count;
        }
        Ok(())
    }

    /// How many of the first calls may run at the same time: those that only read, or those of agents, each but once; one
    /// at least.
    fn parallel_prefix(&self, calls: &[RequestedCall]) -> usize {
        let is_alike = |a: &ToolCall, b: &ToolCall| a.tool == b.tool && a.arguments == b.arguments;
        let is_new = |index: usize, requested: &RequestedCall| {
            !calls.iter().take(index).any(|before| is_alike(&before.call, &requested.call))
        };
        let kind = |requested: &RequestedCall| self.beside(&self.meant(&requested.call));
        let Some(first) = calls.first().and_then(kind) else { return 1 };
        let alike = calls
            .iter()
            .enumerate()
            .take_while(|(index, requested)| kind(requested) == Some(first) && is_new(*index, requested));
        alike.count().max(1)
    }

    /// Makes a call and notes its answer.
    async fn make<'c>(
        &self,
        index: usize,
        turn: &'c OpenTurn,
        session: &Session,
        slots: &Semaphore,
    ) -> Result<Made<'c>, SessionError> {
        // The semaphore is never closed.
        let _slot = slots.acquire().await;
        let begun = Instant::now();
        let Some(requested) = turn.requested().get(index) else { return Ok(Made::nothing()) };
        let call = self.meant(&requested.call);
        let refusal = self.refuse(index, requested, &call);
        let is_run = refusal.is_none();
        let result = match refusal {
            Some(refusal) => self.toolbox.refuse(&call, refusal, session),
            None => self.dispatch(index, &call, turn, session).await,
        };
        turn.answer(index, result.clone(), begun.elapsed())?;
        Ok(Made { call, result, is_run })
    }

    /// Runs a call. What its tool has to shorten is kept where the model can read on in it.
    async fn dispatch(
        &self,
        index: usize,
        call: &ToolCall,
        turn: &OpenTurn,
        session: &Session,
    ) -> ToolResult {
        let is_kept = self.reads && turn.keeps_answers();
        let whole = if is_kept { Whole::wanted() } else { Whole::default() };
        let notes = Notes::recording();
        let session = Session { whole: whole.clone(), notes: notes.clone(), ..session.clone() };
        let result = self.toolbox.dispatch(call.clone(), &session).await;
        let mut result = turn.keep(index, result, whole.take());
        for note in notes.notes().coerced {
            result.content.extend(["\n[", &note, "]"]);
        }
        result
    }

    /// The call of the tool that is to run, where the model wrote it another way.
    fn meant<'c>(&self, call: &'c ToolCall) -> Cow<'c, ToolCall> {
        // What is wrong with it is told by the door.
        let meant = self.toolbox.meant(call).ok().flatten();
        meant.map_or(Cow::Borrowed(call), Cow::Owned)
    }

    /// The answer to a call that is not to be run.
    fn refuse(&self, index: usize, requested: &RequestedCall, call: &ToolCall) -> Option<ToolResult> {
        if self.session.cancel.is_cancelled() {
            return Some(ToolResult::error("the call was not run: cancelled by the user"));
        }
        if index >= MAX_CALLS {
            let text =
                format!("the call was not run: a turn may make {MAX_CALLS} calls; make the rest in the next");
            return Some(ToolResult::error(text));
        }
        let problem = requested.problem.as_deref().map(ToolResult::error);
        problem.or_else(|| self.guard.refuse(call))
    }

    fn note(&mut self, made: &Made<'_>) {
        if made.is_run {
            self.guard.note(&made.call, &made.result, self.changes(&made.call));
        }
    }

    /// Whether the tool may change something. In plan mode none does.
    fn changes(&self, call: &ToolCall) -> bool {
        let reads = |entry: &Entry| entry.def().hints.read_only || entry.grant().is_planning();
        !self.toolbox.find(&call.tool).is_some_and(reads)
    }

    /// Beside which other calls it may run.
    fn beside(&self, call: &ToolCall) -> Option<Beside> {
        if !self.changes(call) {
            return Some(Beside::Reads);
        }
        self.toolbox.find(&call.tool).filter(|entry| entry.is_agent()).map(|_| Beside::Agents)
    }
}

/// Calls that may run at the same time as others of their kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// They only read.
    Reads,
    /// They are of agents: a model that hands out several tasks at once means them to be done at once.
    Agents,
}

impl Made<'_> {
    fn nothing() -> Self {
        let call = ToolCall { id: String::new(), tool: String::new(), arguments: serde_json::Value::Null };
        Self { call: Cow::Owned(call), result: ToolResult::default(), is_run: false }
    }
}
