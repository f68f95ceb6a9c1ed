//! Hooks, which see the calls of tools and may refuse them. A hook changes nothing in a call. A hook that
//! fails to answer refuses the call.

use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Client, Keep, Notes, clip};
use crate::call::{ToolCall, ToolResult};

/// Sees calls, and may refuse them.
#[async_trait]
pub trait Hook: Send + Sync {
    /// Returns the name for people.
    fn name(&self) -> &str;

    /// Returns the objection if the call must not run. The hook bounds its own time; dropping the future stops it.
    async fn before(&self, seen: &Seen<'_>) -> Result<(), Objection>;

    /// Reports the end of the call to the hook. An error is the reason why the report failed.
    async fn after(&self, seen: &Seen<'_>, result: &ToolResult, duration: Duration) -> Result<(), String>;
}

/// A call as shown to a hook.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The call, with the tool's own name and without secrets.
    pub call: &'a ToolCall,
    /// The origin of the tool, for people.
    pub origin: &'a str,
    /// Cancelled if the caller gives up the call; never cancelled after the call.
    pub cancel: &'a CancellationToken,
    /// The client that makes the call.
    pub client: Client,
}

/// The reason why a hook refuses a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objection {
    /// The hook refused, for the reason that it gives.
    Refused(String),
    /// The hook gave no answer; the reason as haft states it.
    Failed(String),
}

/// The maximum number of characters of a hook's reason, which a model reads.
const MAX_REASON: usize = 2000;

/// Asks the hooks one after the other. Returns the answer to the call if a hook refuses it.
pub(super) async fn before(
    hooks: &[std::sync::Arc<dyn Hook>],
    seen: &Seen<'_>,
    notes: &Notes,
) -> Result<(), String> {
    for hook in hooks {
        let (tool, name) = (&seen.call.tool, hook.name());
        let Err(objection) = hook.before(seen).await else { continue };
        let (what, why) = match objection {
            Objection::Refused(reason) => {
                notes.decision(|| format!("refused by hook `{name}`"));
                ("refuses the call", reason)
            }
            Objection::Failed(why) => {
                notes.decision(|| format!("refused: hook `{name}` did not answer: {why}"));
                ("did not answer", why)
            }
        };
        let why = clip(&why, MAX_REASON, Keep::Ends);
        return Err(format!("`{tool}` did not run: the hook `{name}` {what}: {why}"));
    }
    Ok(())
}

/// Reports the end of a call to the hooks, one after the other. Failures are logged.
pub(super) async fn after(
    hooks: &[std::sync::Arc<dyn Hook>],
    seen: &Seen<'_>,
    result: &ToolResult,
    duration: Duration,
) {
    for hook in hooks {
        if let Err(why) = hook.after(seen, result, duration).await {
            tracing::warn!(
                hook = hook.name(),
                tool = seen.call.tool,
                "a hook was not notified of a call: {why}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;
    use crate::call::ToolDef;
    use crate::grant::Grant;
    use crate::limit::Limits;
    use crate::tool::{Approvals, Approver, Context, Decision, Question, Session, Tool, ToolError, Toolbox};

    struct Fast(ToolDef);

    #[async_trait]
    impl Tool for Fast {
        fn def(&self) -> &ToolDef {
            &self.0
        }

        fn may_run_inline(&self, _: &Grant) -> bool {
            true
        }

        async fn call(&self, _: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
            Ok(ToolResult::success("ran"))
        }
    }

    /// Answers every call with one value, and stores the calls that it sees.
    struct Watcher(Result<(), Objection>, Mutex<Vec<String>>);

    impl Watcher {
        fn new(answer: Result<(), Objection>) -> Arc<Self> {
            Arc::new(Self(answer, Mutex::default()))
        }

        fn seen(&self) -> Vec<String> {
            self.1.lock().unwrap().clone()
        }
    }

    #[async_trait]
    impl Hook for Watcher {
        fn name(&self) -> &'static str {
            "watcher"
        }

        async fn before(&self, seen: &Seen<'_>) -> Result<(), Objection> {
            self.1
                .lock()
                .unwrap()
                .push(format!("{} {} {}", seen.call.tool, seen.call.arguments, seen.origin));
            self.0.clone()
        }

        async fn after(&self, seen: &Seen<'_>, result: &ToolResult, _: Duration) -> Result<(), String> {
            let stopped = if seen.cancel.is_cancelled() { " (cancelled)" } else { "" };
            self.1.lock().unwrap().push(format!("{} ended: {}{stopped}", seen.call.tool, result.content));
            Err("it fails".into())
        }
    }

    /// A user who must not be asked.
    struct Nobody;

    #[async_trait]
    impl Approver for Nobody {
        async fn ask(&self, _: &Question) -> Decision {
            panic!("what a hook refuses is not worth a person's time")
        }
    }

    fn toolbox(asks: bool) -> Toolbox {
        let mut toolbox = Toolbox::default();
        let def = |name: &str| ToolDef {
            name: name.into(),
            parameters: json!({"type": "object"}),
            ..ToolDef::default()
        };
        let (one, grant, limits) = (Arc::new(Fast(def("one"))), Grant::none(), Limits::default());
        if asks {
            toolbox.insert_asking(one, grant.clone(), limits, "the test", "`confirm`").unwrap();
        } else {
            toolbox.insert(one, grant.clone(), limits, "the test").unwrap();
        }
        toolbox.insert(Arc::new(Fast(def("two"))), grant, limits, "the test").unwrap();
        toolbox
    }

    async fn dispatched(toolbox: &Toolbox, tool: &str, session: &Session) -> String {
        let call =
            ToolCall { id: "1".into(), tool: tool.into(), arguments: json!({"key": "hunter2-hunter2"}) };
        toolbox.dispatch(call, session).await.content
    }

    fn hooked(toolbox: &Toolbox, tools: &str, watcher: &Arc<Watcher>) -> Toolbox {
        let hook: Arc<dyn Hook> = watcher.clone();
        toolbox.hooked(&[tools.parse().unwrap()], &hook)
    }

    /// A hook sees each call of its tools once, in any spelling of the call, and no secret.
    #[tokio::test]
    async fn a_hook_sees_its_calls_without_secrets() {
        let watcher = Watcher::new(Ok(()));
        let toolbox = hooked(&hooked(&toolbox(false), "one", &watcher), "o*", &watcher);
        let session = Session::default();
        session.redactor.add([&secrecy::SecretString::from("hunter2-hunter2")]);
        assert_eq!(dispatched(&toolbox, "ONE", &session).await, "ran", "an error afterwards changes nothing");
        assert_eq!(dispatched(&toolbox, "two", &session).await, "ran");
        let seen = watcher.seen();
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert!(seen[0].starts_with("one {\"key\":") && seen[0].ends_with(" the test"), "{seen:?}");
        assert!(!seen[0].contains("hunter2") && seen[1] == "one ended: ran", "{seen:?}");
    }

    /// Cancelling a call does not cancel the report to the hook.
    #[tokio::test]
    async fn a_hook_is_told_of_a_call_that_was_stopped() {
        let watcher = Watcher::new(Ok(()));
        let toolbox = hooked(&toolbox(false), "one", &watcher);
        let session = Session::default();
        session.cancel.cancel();
        assert!(dispatched(&toolbox, "one", &session).await.contains("`one` was cancelled"));
        let seen = watcher.seen();
        assert!(seen.len() == 1 && seen[0].ends_with("`one` was cancelled"), "{seen:?}");
    }

    #[tokio::test]
    async fn what_a_hook_does_not_let_run_says_whose_words_they_are() {
        let session = Session { approvals: Approvals::by(Nobody), ..Session::default() };
        for (answer, expected) in [
            (
                Objection::Refused("not today".into()),
                "`one` did not run: the hook `watcher` refuses the call: not today",
            ),
            (
                Objection::Failed("it traps".into()),
                "`one` did not run: the hook `watcher` did not answer: it traps",
            ),
        ] {
            let watcher = Watcher::new(Err(answer));
            let toolbox = hooked(&toolbox(true), "*", &watcher);
            assert_eq!(dispatched(&toolbox, "one", &session).await, expected);
            assert_eq!(
                watcher.seen().last().unwrap(),
                &format!("one ended: {expected}"),
                "it is told of that too"
            );
        }
    }

    /// Selections and rules keep hooks, and a call with a hook never runs on the thread that reads calls.
    #[test]
    fn a_hook_stays_and_makes_slow() {
        let toolbox = hooked(&toolbox(false), "one", &Watcher::new(Ok(())));
        let is_fast = |toolbox: &Toolbox, name: &str| toolbox.find(name).unwrap().may_run_inline();
        assert!(!is_fast(&toolbox, "one") && is_fast(&toolbox, "two"));
        let rest = toolbox
            .select(&["*".parse().unwrap()], Some(&Grant::none()))
            .ruled(&crate::tool::Rules::default());
        assert!(!is_fast(&rest, "one") && is_fast(&rest, "two"));
    }
}
