//! The rules and approvals that a program sets for the calls of its agents. They apply in addition to those of the
//! agents: the strictest one counts. They grant no right, and remove no rule of an agent.

use std::path::Path;
use std::sync::Arc;

use super::rules::{Rules, Ruling, ToolRules};
use super::subject::Subject;
use crate::rule::Effect;

/// The rules and approvals of a program for the calls of its agents.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// The rules.
    pub rules: Rules,
    /// The line of program.toml that requires an approval before a command line runs; `None`: no approval.
    pub commands: Option<Arc<str>>,
    /// The line of program.toml that requires an approval before a request to an address; `None`: no approval.
    pub addresses: Option<Arc<str>>,
}

/// The rules and approvals for the calls of one tool.
#[derive(Clone, Debug)]
pub(super) struct ToolBounds {
    rules: Option<Arc<ToolRules>>,
    commands: Option<Arc<str>>,
    addresses: Option<Arc<str>>,
}

impl Bounds {
    /// Returns the bounds for a tool with these names; `None` without bounds.
    pub(super) fn of(&self, names: &[&str]) -> Option<ToolBounds> {
        let (rules, commands, addresses) =
            (self.rules.of(names, false), self.commands.clone(), self.addresses.clone());
        let is_something = rules.is_some() || commands.is_some() || addresses.is_some();
        is_something.then_some(ToolBounds { rules, commands, addresses })
    }
}

impl ToolBounds {
    /// Returns the ruling for a call: of the rule that matches it, or else of the approval for such calls.
    pub(super) fn ruling(&self, subject: impl Fn() -> Subject, workspace: Option<&Path>) -> Option<Ruling> {
        let ruling = self.rules.as_ref().and_then(|rules| rules.ruling(&subject, workspace));
        ruling.or_else(|| {
            let because = self.setting(&subject())?.to_string();
            Some(Ruling { effect: Effect::Ask, because })
        })
    }

    fn setting(&self, subject: &Subject) -> Option<&Arc<str>> {
        match subject {
            Subject::Command(_) => self.commands.as_ref(),
            Subject::Address(_) => self.addresses.as_ref(),
            Subject::Path(_) | Subject::Arguments(_) => None,
        }
    }

    /// Returns whether some call may need an approval. Its subject is known only when the call is made.
    pub(super) fn may_ask(&self) -> bool {
        let has_setting = self.commands.is_some() || self.addresses.is_some();
        has_setting || self.rules.as_ref().is_some_and(|rules| rules.may_ask())
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::{Value, json};

    use super::*;
    use crate::call::{ToolCall, ToolDef, ToolResult};
    use crate::grant::Grant;
    use crate::limit::Limits;
    use crate::tool::{
        Approvals, Approver, Context, Decision, Question, Rule, Session, Tool, ToolError, Toolbox,
    };

    /// A tool whose argument is the subject of its calls.
    struct Fake(ToolDef);

    #[async_trait]
    impl Tool for Fake {
        fn def(&self) -> &ToolDef {
            &self.0
        }

        fn subject(&self, arguments: &Value) -> Subject {
            let text = arguments["about"].as_str().unwrap_or_default().to_owned();
            match self.0.name.as_str() {
                "bash" => Subject::Command(text),
                "fetch_url" => Subject::Address(text),
                _ => Subject::arguments(arguments),
            }
        }

        fn may_run_inline(&self, _: &Grant) -> bool {
            true
        }

        async fn call(&self, _: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
            Ok(ToolResult::success("ran"))
        }
    }

    /// Approves everything, and counts the questions.
    #[derive(Clone, Default)]
    struct Yes(Arc<std::sync::Mutex<usize>>);

    #[async_trait]
    impl Approver for Yes {
        async fn ask(&self, _: &Question) -> Decision {
            *self.0.lock().unwrap() += 1;
            Decision::Approved
        }
    }

    fn rules(written: &[(Effect, &str)], otherwise: Option<Effect>) -> Rules {
        let rule = |(effect, pattern): &(Effect, &str)| Rule {
            effect: *effect,
            pattern: pattern.parse().unwrap(),
            place: "program.toml:1:1".into(),
            base: None,
        };
        let otherwise = otherwise.map(|it| (it, "here".into()));
        Rules { rules: written.iter().map(rule).collect(), otherwise, home: None }
    }

    /// Returns bounds that ask about commands if `asks`.
    fn bounds(rules: Rules, asks: bool) -> Bounds {
        Bounds { rules, commands: asks.then(|| "the caller's `shell_confirm`".into()), addresses: None }
    }

    /// Returns an agent's tools, which have rules of their own; `bash` asks if `asks`.
    fn toolbox(own: &Rules, asks: bool, bounds: &[Bounds]) -> Toolbox {
        let mut toolbox = Toolbox::default();
        for name in ["bash", "fetch_url", "guest__echo"] {
            let parameters = json!({"type": "object"});
            let tool = Arc::new(Fake(ToolDef { name: name.into(), parameters, ..ToolDef::default() }));
            let (grant, limits) = (Grant::none(), Limits::default());
            if asks && name == "bash" {
                toolbox.insert_asking(tool, grant, limits, "test", "its own `shell_confirm`").unwrap();
            } else {
                toolbox.insert(tool, grant, limits, "test").unwrap();
            }
        }
        toolbox.ruled(own).bounded(bounds)
    }

    /// Returns whether a call ran, and whether the user was asked.
    async fn dispatched(toolbox: &Toolbox, tool: &str, about: &str) -> (bool, bool) {
        let person = Yes::default();
        let session = Session { approvals: Approvals::by(person.clone()), ..Session::default() };
        let call = ToolCall { id: "1".into(), tool: tool.into(), arguments: json!({"about": about}) };
        let content = toolbox.dispatch(call, &session).await.content;
        let asked = *person.0.lock().unwrap();
        (content == "ran", asked > 0)
    }

    const RUNS: (bool, bool) = (true, false);
    const ASKS: (bool, bool) = (true, true);
    const REFUSED: (bool, bool) = (false, false);

    /// A caller's rule that allows a call overrides the caller's own `otherwise` and setting, and no rule of the
    /// agent.
    #[tokio::test]
    async fn a_caller_s_allow_lifts_nothing_of_the_agent() {
        let allow = [(Effect::Allow, "bash(git *)")];
        let caller = bounds(rules(&allow, Some(Effect::Ask)), true);
        let agent = toolbox(&Rules::default(), true, std::slice::from_ref(&caller));
        assert_eq!(dispatched(&agent, "bash", "git status").await, ASKS, "its own setting asks");
        let free = toolbox(&Rules::default(), false, std::slice::from_ref(&caller));
        assert_eq!(dispatched(&free, "bash", "git status").await, RUNS);
        assert_eq!(dispatched(&free, "bash", "ls").await, ASKS);
        let denied = toolbox(&rules(&[], Some(Effect::Deny)), false, &[caller]);
        assert_eq!(dispatched(&denied, "bash", "git status").await, REFUSED);
    }

    /// An agent's rule that allows a call overrides the agent's own setting, and no rule of a direct or indirect
    /// caller.
    #[tokio::test]
    async fn an_agent_s_allow_lifts_nothing_of_its_callers() {
        let own = rules(&[(Effect::Allow, "*")], None);
        for outer in [
            vec![bounds(Rules::default(), true)],
            vec![bounds(rules(&[(Effect::Allow, "*")], None), false), bounds(Rules::default(), true)],
            vec![bounds(rules(&[], Some(Effect::Ask)), false)],
            vec![bounds(rules(&[(Effect::Ask, "bash")], None), false)],
        ] {
            assert_eq!(
                dispatched(&toolbox(&own, true, &outer), "bash", "git status").await,
                ASKS,
                "{outer:?}"
            );
        }
        let denying = [
            bounds(rules(&[(Effect::Ask, "*")], None), true),
            bounds(rules(&[(Effect::Deny, "bash")], None), false),
        ];
        assert_eq!(dispatched(&toolbox(&own, true, &denying), "bash", "ls").await, REFUSED);
        assert_eq!(dispatched(&toolbox(&own, true, &[]), "bash", "ls").await, RUNS);
    }

    /// An approval for commands does not apply to addresses, nor the other way round.
    #[tokio::test]
    async fn a_setting_is_for_what_it_names() {
        let commands = [bounds(Rules::default(), true)];
        let addresses = [Bounds { addresses: Some("`fetch_confirm`".into()), ..Bounds::default() }];
        for (outer, asking) in [(&commands, "bash"), (&addresses, "fetch_url")] {
            let agent = toolbox(&Rules::default(), false, outer);
            for tool in ["bash", "fetch_url", "guest__echo"] {
                let expected = if tool == asking { ASKS } else { RUNS };
                assert_eq!(dispatched(&agent, tool, "http://127.0.0.1/").await, expected, "{tool}");
            }
            assert!(!agent.find(asking).unwrap().may_run_inline(), "a person may be asked");
        }
    }

    /// Without a user to ask, the answer names the line and its file. Selections of tools keep the bounds.
    #[tokio::test]
    async fn the_answer_names_the_caller_s_line() {
        let agent = toolbox(&Rules::default(), false, &[bounds(Rules::default(), true)]);
        let agent = agent.select(&["*".parse().unwrap()], Some(&Grant::none())).ruled(&Rules::default());
        let call = ToolCall { id: "1".into(), tool: "bash".into(), arguments: json!({"about": "ls"}) };
        let content = agent.dispatch(call, &Session::default()).await.content;
        assert!(content.contains("remove the caller's `shell_confirm`"), "{content}");
    }
}
