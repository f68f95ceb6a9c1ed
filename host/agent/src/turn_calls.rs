//! Runs the calls of a turn and answers each of them, including calls that cannot run and calls that are cancelled.
//! Adjacent calls that only read run concurrently, and so do adjacent calls of agents; no other call overtakes an
//! earlier one.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use super::history::OpenTurn;
use super::session::SessionError;
use crate::provider::RequestedCall;
use crate::window::READER;
use haft_core::call::{ToolCall, ToolResult};
use haft_core::tool::{Entry, Notes, Session, Toolbox, Whole};

/// The maximum number of calls of a turn: a model that makes more has lost its way.
const MAX_CALLS: usize = 64;

/// The maximum number of concurrent calls: as many as a browser opens connections to one server, and few enough
/// component instances for any machine.
const MAX_AT_ONCE: usize = 8;

pub(super) struct TurnCalls<'a> {
    pub(super) toolbox: Arc<Toolbox>,
    session: &'a Session,
    guard: LoopGuard,
    /// Whether the model can open stored answers.
    reads: bool,
}

impl<'a> TurnCalls<'a> {
    pub(super) fn new(toolbox: Arc<Toolbox>, session: &'a Session, max_repeats: u32) -> Self {
        let reads = toolbox.find(READER).is_some();
        Self { toolbox, session, guard: LoopGuard::new(max_repeats), reads }
    }

    /// Answers the unanswered calls of `turn`.
    pub(super) async fn run(&mut self, turn: &Arc<OpenTurn>) -> Result<(), SessionError> {
        let session = turn.session(self.session);
        let mut next = 0;
        while next < turn.requested().len() {
            let count = self.parallel_prefix(turn.requested().get(next..).unwrap_or_default());
            let waiting = (next..next + count).filter(|index| turn.is_waiting(*index));
            let slots = Semaphore::new(MAX_AT_ONCE);
            let this = &*self;
            let calls = waiting.map(|index| this.make(index, turn, &session, &slots));
            for run in join_all(calls).await {
                if let Some((call, result)) = run? {
                    self.guard.note(&call, &result, self.changes(&call));
                }
            }
            next += count;
        }
        Ok(())
    }

    /// Returns the number of first calls that may run concurrently: those that only read, or those of agents,
    /// without repeated calls; at least one.
    fn parallel_prefix(&self, calls: &[RequestedCall]) -> usize {
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

    /// Runs a call and records its answer. Returns the call and its result if it was dispatched to a tool.
    async fn make<'c>(
        &self,
        index: usize,
        turn: &'c OpenTurn,
        session: &Session,
        slots: &Semaphore,
    ) -> Result<Option<(Cow<'c, ToolCall>, ToolResult)>, SessionError> {
        // The semaphore is never closed.
        let _slot = slots.acquire().await;
        let begun = Instant::now();
        let Some(requested) = turn.requested().get(index) else { return Ok(None) };
        let call = self.meant(&requested.call);
        let refusal = self.refuse(index, requested, &call);
        let is_run = refusal.is_none();
        let result = match refusal {
            Some(refusal) => self.toolbox.refuse(&call, refusal, session),
            None => self.dispatch(index, &call, turn, session).await,
        };
        turn.answer(index, result.clone(), begun.elapsed())?;
        Ok(is_run.then_some((call, result)))
    }

    /// Dispatches a call. The full text of a shortened answer is stored if the model can read it.
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
        // A model reads text, and a session keeps what the model read.
        let result = ToolResult { mcp: None, ..result };
        let mut result = turn.keep(index, result, whole.take());
        for note in notes.notes().coerced {
            result.content.extend(["\n[", &note, "]"]);
        }
        result
    }

    /// Returns the call with the tool name corrected, if the model spelled it differently.
    fn meant<'c>(&self, call: &'c ToolCall) -> Cow<'c, ToolCall> {
        // `dispatch` reports an error in the name.
        let meant = self.toolbox.meant(call).ok().flatten();
        meant.map_or(Cow::Borrowed(call), Cow::Owned)
    }

    /// Returns the answer to a call that must not run.
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

    /// Returns whether the tool may change something; no tool does in plan mode.
    fn changes(&self, call: &ToolCall) -> bool {
        let reads = |entry: &Entry| entry.def().hints.read_only || entry.grant().is_planning();
        !self.toolbox.find(&call.tool).is_some_and(reads)
    }

    /// Returns the kind of calls that this call may run concurrently with.
    fn beside(&self, call: &ToolCall) -> Option<Beside> {
        if !self.changes(call) {
            return Some(Beside::Reads);
        }
        self.toolbox.find(&call.tool).filter(|entry| entry.is_agent()).map(|_| Beside::Agents)
    }
}

/// The kinds of calls that may run concurrently with others of their kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Reads,
    /// Calls of agents: a model that delegates several tasks in one turn expects concurrency.
    Agents,
}

// Stops a model that repeats a failing call. Allows a repeat after a change of the files: this is how a model gets a
// test to pass.

struct LoopGuard {
    /// The calls that failed since the last change, and how often.
    failed: Vec<(ToolCall, u32)>,
    /// The maximum number of repetitions of a failed call.
    max_repeats: u32,
}

impl LoopGuard {
    fn new(max_repeats: u32) -> Self {
        Self { failed: Vec::new(), max_repeats }
    }

    /// Returns the error for a call that must not run.
    fn refuse(&self, call: &ToolCall) -> Option<ToolResult> {
        let (_, times) = self.failed.iter().find(|(failed, _)| is_alike(failed, call))?;
        let text = "the call was not run: the same call has failed";
        (*times > self.max_repeats).then(|| {
            ToolResult::error(format!(
                "{text} {times} times already; change the arguments or try something else"
            ))
        })
    }

    /// Records the result of a call that ran. `changes`: the call may have changed something if it succeeded.
    fn note(&mut self, call: &ToolCall, result: &ToolResult, changes: bool) {
        if !result.is_error {
            self.failed.retain(|(failed, _)| !changes && !is_alike(failed, call));
        } else if let Some((_, times)) = self.failed.iter_mut().find(|(failed, _)| is_alike(failed, call)) {
            *times += 1;
        } else {
            self.failed.push((call.clone(), 1));
        }
    }
}

/// Returns whether two calls are equal; ids and the order of the arguments' keys are ignored.
fn is_alike(one: &ToolCall, other: &ToolCall) -> bool {
    one.tool == other.tool && one.arguments == other.arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn call(id: &str, arguments: Value) -> ToolCall {
        ToolCall { id: id.into(), tool: "test".into(), arguments }
    }

    fn guarded(times: u32) -> LoopGuard {
        let mut guard = LoopGuard::new(2);
        for _ in 0..times {
            guard.note(&call("x", json!({ "a": 1, "b": 2 })), &ToolResult::error("no"), true);
        }
        guard
    }

    /// PL21: the fourth identical failing call is refused.
    #[test]
    fn the_fourth_identical_failing_call_is_refused() {
        assert!(guarded(2).refuse(&call("y", json!({ "a": 1, "b": 2 }))).is_none());
        let guard = guarded(3);
        assert!(guard.refuse(&call("y", json!({ "b": 2, "a": 1 }))).unwrap().content.contains("3 times"));
        assert!(guard.refuse(&call("y", json!({ "a": 1 }))).is_none());
    }

    /// PL21: a call with effects permits another attempt, and a call that only reads does not.
    #[test]
    fn a_change_makes_another_try_worth_while_and_a_look_does_not() {
        let again = call("y", json!({ "a": 1, "b": 2 }));
        let mut guard = guarded(3);
        guard.note(&call("z", json!({})), &ToolResult::success("looked"), false);
        assert!(guard.refuse(&again).is_some());
        guard.note(&call("z", json!({})), &ToolResult::success("written"), true);
        assert!(guard.refuse(&again).is_none());
    }
}
