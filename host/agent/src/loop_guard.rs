//! Stops a model that repeats a failing call. Allows a repeat after a change of the files: this is how a model gets
//! a test to pass.

use serde_json::Value;

use haft_core::call::{ToolCall, ToolResult};

/// The calls that failed since the last change.
pub(super) struct LoopGuard {
    failed: Vec<Failed>,
    /// The maximum number of repetitions of a failed call.
    max_repeats: u32,
}

struct Failed {
    tool: String,
    arguments: Value,
    times: u32,
}

impl LoopGuard {
    /// Creates a guard that allows `max_repeats` repetitions of a failing call.
    pub(super) fn new(max_repeats: u32) -> Self {
        Self { failed: Vec::new(), max_repeats }
    }

    /// Returns the error for a call that must not run.
    pub(super) fn refuse(&self, call: &ToolCall) -> Option<ToolResult> {
        self.failed.iter().find(|failed| failed.is(call) && failed.times > self.max_repeats).map(|failed| {
            let text = "the call was not run: the same call has failed";
            ToolResult::error(format!(
                "{text} {} times already; change the arguments or try something else",
                failed.times
            ))
        })
    }

    /// Records the result of a call that ran. `changes`: the call may have changed something if it succeeded.
    pub(super) fn note(&mut self, call: &ToolCall, result: &ToolResult, changes: bool) {
        if !result.is_error {
            self.failed.retain(|failed| !changes && !failed.is(call));
        } else if let Some(failed) = self.failed.iter_mut().find(|failed| failed.is(call)) {
            failed.times += 1;
        } else {
            self.failed.push(Failed { tool: call.tool.clone(), arguments: call.arguments.clone(), times: 1 });
        }
    }
}

impl Failed {
    /// Returns whether the failed call equals `call`; ids and the order of the arguments' keys are ignored.
    fn is(&self, call: &ToolCall) -> bool {
        self.tool == call.tool && self.arguments == call.arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
