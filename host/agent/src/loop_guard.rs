//! Stops a model that makes the same failing call again and again. Says nothing against a call
//! that fails again after something was changed: that is how a test is made to pass.

use serde_json::Value;

use haft_core::call::{ToolCall, ToolResult};

/// The calls that failed since something last changed.
pub(super) struct LoopGuard {
    failed: Vec<Failed>,
    /// How often a call that failed is run again.
    max_repeats: u32,
}

struct Failed {
    tool: String,
    arguments: Value,
    times: u32,
}

impl LoopGuard {
    /// A guard that lets a failing call be repeated `max_repeats` times.
    pub(super) fn new(max_repeats: u32) -> Self {
        Self { failed: Vec::new(), max_repeats }
    }

    /// The answer to a call that is not to be run.
    pub(super) fn refuse(&self, call: &ToolCall) -> Option<ToolResult> {
        self.failed.iter().find(|failed| failed.is(call) && failed.times > self.max_repeats).map(|failed| {
            let text = "the call was not run: the same call has failed";
            ToolResult::error(format!(
                "{text} {} times already; change the arguments or try something else",
                failed.times
            ))
        })
    }

    /// Takes note of how a call that was run went. `changes` says that it may have changed
    /// something when it succeeded.
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
    /// Whether it is this call; its id and the order of its arguments' keys do not matter.
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

    /// PL21.
    #[test]
    fn pl21_the_fourth_identical_failing_call_is_refused() {
        assert!(guarded(2).refuse(&call("y", json!({ "a": 1, "b": 2 }))).is_none());
        let guard = guarded(3);
        assert!(guard.refuse(&call("y", json!({ "b": 2, "a": 1 }))).unwrap().content.contains("3 times"));
        assert!(guard.refuse(&call("y", json!({ "a": 1 }))).is_none());
    }

    /// PL21.
    #[test]
    fn pl21_a_change_makes_another_try_worth_while_and_a_look_does_not() {
        let again = call("y", json!({ "a": 1, "b": 2 }));
        let mut guard = guarded(3);
        guard.note(&call("z", json!({})), &ToolResult::success("looked"), false);
        assert!(guard.refuse(&again).is_some());
        guard.note(&call("z", json!({})), &ToolResult::success("written"), true);
        assert!(guard.refuse(&again).is_none());
    }
}
