//! Runs the calls of a turn, in the order in which the model made them, and gives every one an
//! answer: also those that cannot be run and those that a cancellation overtakes.

use std::borrow::Cow;

use super::brake::Brake;
use crate::call::{ToolCall, ToolResult};
use crate::provider::Wanted;
use crate::tool::{Session, Toolbox};

/// Calls of one turn that are run: a model that asks for more has lost its way.
const MAX_CALLS: usize = 64;
/// The work of one run.
pub(super) struct Work<'a> {
    toolbox: &'a Toolbox,
    session: &'a Session,
    brake: Brake,
}

impl<'a> Work<'a> {
    pub(super) fn new(toolbox: &'a Toolbox, session: &'a Session, max_repeats: u32) -> Self {
        Self { toolbox, session, brake: Brake::new(max_repeats) }
    }

    /// The answers to `calls`, one each, in order.
    pub(super) async fn run(&mut self, calls: &[Wanted]) -> Vec<ToolResult> {
        let mut answers = Vec::with_capacity(calls.len());
        for (index, wanted) in calls.iter().enumerate() {
            let call = self.meant(&wanted.call);
            let answer = match self.refuse(index, wanted, &call) {
                Some(refusal) => self.toolbox.refuse(&call, refusal, self.session),
                None => self.dispatch(&call).await,
            };
            answers.push(answer);
        }
        answers
    }

    /// The call of the tool that is to run, where the model wrote it another way.
    fn meant<'c>(&self, call: &'c ToolCall) -> Cow<'c, ToolCall> {
        // What is wrong with it is told by the door.
        let meant = self.toolbox.meant(call).ok().flatten();
        meant.map_or(Cow::Borrowed(call), Cow::Owned)
    }

    /// The answer to a call that is not to be run.
    fn refuse(&self, index: usize, wanted: &Wanted, call: &ToolCall) -> Option<ToolResult> {
        if self.session.cancel.is_cancelled() {
            return Some(ToolResult::error("the call was not run: cancelled by the user"));
        }
        if index >= MAX_CALLS {
            let text =
                format!("the call was not run: a turn may make {MAX_CALLS} calls; make the rest in the next");
            return Some(ToolResult::error(text));
        }
        let problem = wanted.problem.as_deref().map(ToolResult::error);
        problem.or_else(|| self.brake.refuse(call))
    }

    async fn dispatch(&mut self, call: &ToolCall) -> ToolResult {
        let result = self.toolbox.dispatch(call.clone(), self.session).await;
        self.brake.note(call, &result, self.changes(call));
        result
    }

    /// Whether the tool may change something.
    fn changes(&self, call: &ToolCall) -> bool {
        !self.toolbox.find(&call.tool).is_some_and(|entry| entry.def().hints.read_only)
    }
}
