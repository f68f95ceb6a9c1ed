use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::*;
use crate::call::{ToolCall, ToolDef, ToolResult};
use crate::grant::{Grant, Root};
use crate::limit::Limits;
use crate::tool::{
    Approvals, Approver, Context, Decision, Question, Session, SubjectArgument, Tool, ToolError, Toolbox,
};

struct Fake(ToolDef, SubjectArgument);

#[async_trait]
impl Tool for Fake {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    fn subject(&self, arguments: &Value) -> Subject {
        match self.0.name.as_str() {
            "bash" => Subject::command(arguments, "command"),
            _ => self.1.subject(arguments),
        }
    }

    fn may_run_inline(&self, _: &Grant) -> bool {
        true
    }

    async fn call(&self, _: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::success("ran"))
    }
}

/// Approves every question, and records it.
#[derive(Clone, Default)]
struct Yes(Arc<std::sync::Mutex<Vec<Question>>>);

#[async_trait]
impl Approver for Yes {
    async fn ask(&self, question: &Question) -> Decision {
        self.0.lock().unwrap().push(question.clone());
        Decision::Approved
    }
}

fn tool(name: &str, subject: SubjectArgument) -> Arc<Fake> {
    let parameters = json!({"type": "object"});
    Arc::new(Fake(ToolDef { name: name.into(), parameters, ..ToolDef::default() }, subject))
}

fn rules(written: &[(Effect, &str)], otherwise: Option<Effect>) -> Rules {
    let rule = |(effect, pattern): &(Effect, &str)| Rule {
        effect: *effect,
        pattern: pattern.parse().unwrap(),
        place: "program.toml:1:1".into(),
        base: None,
    };
    let otherwise = otherwise.map(|effect| (effect, "program.toml:9:1".into()));
    Rules { rules: written.iter().map(rule).collect(), otherwise, home: None }
}

/// A toolbox with `bash`, for which `shell_confirm` asks, and two other tools.
fn toolbox(rules: &Rules) -> Toolbox {
    let mut toolbox = Toolbox::default();
    let (grant, limits) = (Grant::none(), Limits::default());
    let bash = tool("bash", SubjectArgument::All);
    toolbox.insert_asking(bash, grant.clone(), limits, "test", "`shell_confirm`").unwrap();
    for (name, subject) in [("read", SubjectArgument::Path("file_path")), ("git__log", SubjectArgument::All)]
    {
        toolbox.insert(tool(name, subject), grant.clone(), limits, "test").unwrap();
    }
    toolbox.alias("log", "git__log");
    toolbox.ruled(rules)
}

async fn dispatched(toolbox: &Toolbox, tool: &str, arguments: Value) -> (String, Vec<Question>) {
    let person = Yes::default();
    let session = Session { approvals: Approvals::by(person.clone()), ..Session::default() };
    let call = ToolCall { id: "1".into(), tool: tool.into(), arguments };
    let content = toolbox.dispatch(call, &session).await.content;
    let asked = person.0.lock().unwrap().clone();
    (content, asked)
}

#[tokio::test]
async fn what_refuses_is_stronger_than_what_asks_and_that_than_what_allows() {
    let all = [
        (Effect::Allow, "bash(git *)"),
        (Effect::Ask, "bash(git push *)"),
        (Effect::Deny, "bash(git push --force*)"),
    ];
    let toolbox = toolbox(&rules(&all, None));
    for (command, runs, asks) in [
        ("git status", true, false),
        ("git push", true, true),
        ("git push --force", false, false),
        ("git status; git push --force", false, false),
        ("git status; ls", true, true),
        ("ls", true, true),
    ] {
        let (content, asked) = dispatched(&toolbox, "bash", json!({"command": command})).await;
        assert_eq!((content == "ran", !asked.is_empty()), (runs, asks), "{command}: {content}");
    }
    let (content, _) = dispatched(&toolbox, "bash", json!({"command": "git push --force"})).await;
    assert_eq!(
        content,
        "`bash` did not run: the rule `bash(git push --force*)` in `deny` of `[agent]` (program.toml:1:1) refuses the call"
    );
}

#[tokio::test]
async fn what_no_rule_names_is_as_otherwise_says() {
    let allow = [(Effect::Allow, "read(docs/*)")];
    for (otherwise, runs, asks) in [
        (None, true, false),
        (Some(Effect::Allow), true, false),
        (Some(Effect::Ask), true, true),
        (Some(Effect::Deny), false, false),
    ] {
        let toolbox = toolbox(&rules(&allow, otherwise));
        let (content, asked) = dispatched(&toolbox, "git__log", json!({})).await;
        assert_eq!((content == "ran", !asked.is_empty()), (runs, asks), "{otherwise:?}: {content}");
        let (content, asked) = dispatched(&toolbox, "read", json!({"file_path": "docs/x"})).await;
        assert_eq!((content.as_str(), asked.len()), ("ran", 0), "{otherwise:?}");
    }
    let toolbox = toolbox(&rules(&[], Some(Effect::Deny)));
    let (content, _) = dispatched(&toolbox, "git__log", json!({})).await;
    assert!(content.contains("`otherwise = \"deny\"` in `[agent]` (program.toml:9:1)"), "{content}");
}

/// Without a user to ask, the answer names the rule.
#[tokio::test]
async fn a_rule_that_asks_nobody_refuses() {
    let toolbox = toolbox(&rules(&[(Effect::Ask, "git__*")], None));
    let call = ToolCall { id: "1".into(), tool: "git__log".into(), arguments: json!({}) };
    let content = toolbox.dispatch(call, &Session::default()).await.content;
    assert!(
        content.contains("remove the rule `git__*` in `ask` of `[agent]` (program.toml:1:1)"),
        "{content}"
    );
}

#[tokio::test]
async fn a_rule_is_kept_by_every_name_and_in_every_selection() {
    let toolbox = toolbox(&rules(&[(Effect::Deny, "log")], None));
    let all = toolbox.select(&["*".parse().unwrap()], Some(&Grant::none()));
    for toolbox in [&toolbox, &all] {
        for (name, arguments) in [
            ("log", json!({})),
            ("GIT__LOG", json!({})),
            ("program", json!({"name": "git__log", "args": {}})),
        ] {
            let (content, _) = dispatched(toolbox, name, arguments).await;
            assert!(content.contains("the rule `log` in `deny`"), "{name}: {content}");
        }
    }
}

/// Rules do not slow down a tool that none of them can ask about.
#[test]
fn only_what_may_ask_is_slow() {
    let is_fast = |written: &[(Effect, &str)], otherwise, name: &str| {
        let toolbox = toolbox(&rules(written, otherwise));
        toolbox.find(name).unwrap().may_run_inline()
    };
    assert!(is_fast(&[(Effect::Ask, "read")], None, "git__log"));
    assert!(is_fast(&[(Effect::Deny, "git__*"), (Effect::Allow, "*")], None, "git__log"));
    assert!(!is_fast(&[(Effect::Ask, "git__*")], None, "git__log"));
    assert!(!is_fast(&[], Some(Effect::Ask), "git__log"));
    assert!(!is_fast(&[(Effect::Allow, "*")], None, "bash"), "`shell_confirm` asks");
}

/// A typed call needs no approval by a rule; a denied call does not run.
#[tokio::test]
async fn a_person_who_types_the_call_is_not_asked_by_a_rule() {
    let written = [(Effect::Ask, "read"), (Effect::Deny, "git__log"), (Effect::Allow, "bash(ls)")];
    let own = rules(&written, Some(Effect::Ask));
    let toolbox = toolbox(&own).ruled(&own.for_a_person());
    let (content, asked) = dispatched(&toolbox, "read", json!({})).await;
    assert_eq!((content.as_str(), asked.len()), ("ran", 0));
    let (content, _) = dispatched(&toolbox, "git__log", json!({})).await;
    assert!(content.contains("did not run"), "{content}");
    let own = rules(&written, Some(Effect::Deny));
    let toolbox = self::toolbox(&own).ruled(&own.for_a_person());
    let (content, asked) = dispatched(&toolbox, "read", json!({})).await;
    assert_eq!((content.as_str(), asked.len()), ("ran", 0));
    for (tool, arguments) in [("git__log", json!({})), ("bash", json!({ "command": "pwd" }))] {
        let (content, _) = dispatched(&toolbox, tool, arguments).await;
        assert!(content.contains("did not run"), "{tool}: {content}");
    }
}

#[tokio::test]
async fn a_session_can_allow_what_a_rule_means() {
    let toolbox = toolbox(&rules(&[(Effect::Ask, "*"), (Effect::Deny, "bash(rm *)")], None));
    let session = Session::default();
    session.approvals.allow("bash(ls *)".parse().unwrap());
    let call = async |command: &str| {
        let arguments = json!({"command": command});
        let call = ToolCall { id: "1".into(), tool: "bash".into(), arguments };
        toolbox.dispatch(call, &session).await.content
    };
    assert_eq!(call("ls -l").await, "ran");
    assert!(call("ls; pwd").await.contains("no person can be asked"));
    session.approvals.allow("bash".parse().unwrap());
    assert_eq!(call("ls; pwd").await, "ran");
    assert!(call("rm x").await.contains("refuses the call"), "a session does not lift what is refused");
    assert!(session.approvals.withdraw("bash") && session.approvals.allowed().is_empty());
    assert!(call("ls -l").await.contains("no person can be asked"));
}

/// The rule in the question to the user matches exactly the one call, and contains no secret.
#[tokio::test]
async fn the_rule_that_is_offered_means_one_call() {
    let toolbox = toolbox(&Rules::default());
    let (_, asked) = dispatched(&toolbox, "bash", json!({"command": "ls *"})).await;
    assert_eq!(asked[0].rule.as_ref().unwrap().to_string(), r"bash(ls \*)");
    let person = Yes::default();
    let redactor = crate::secret::Redactor::default();
    redactor.add([&secrecy::SecretString::from("hunter2-hunter2")]);
    let session = Session { approvals: Approvals::by(person.clone()), redactor, ..Session::default() };
    let arguments = json!({"command": "curl -H hunter2-hunter2"});
    toolbox.dispatch(ToolCall { id: "1".into(), tool: "bash".into(), arguments }, &session).await;
    assert_eq!(person.0.lock().unwrap()[0].rule, None);
}

/// A caller's rules apply to the same files for tools with another workspace.
#[tokio::test]
async fn a_rule_keeps_its_base_and_a_call_its_workspace() {
    let written = [(Effect::Deny, "read(secrets/*)"), (Effect::Allow, "read(src/*)")];
    let place = tempfile::tempdir().unwrap();
    let caller = place.path().join("caller");
    std::fs::create_dir(place.path().join("agent")).unwrap();
    let workspace = Root::resolve(place.path(), Path::new("agent")).unwrap();
    let mut toolbox = Toolbox::default();
    let read = tool("read", SubjectArgument::Path("file_path"));
    toolbox.insert(read, Grant::none().with_workspace(workspace), Limits::default(), "test").unwrap();
    let answer = async |rules: &Rules, path: &str| {
        dispatched(&toolbox.ruled(rules), "read", json!({"file_path": path})).await.0
    };
    let own = rules(&written, Some(Effect::Deny)).based(&caller);
    let file = |path: &str| caller.join(path).to_str().unwrap().to_owned();
    for path in [&file("src/a"), "../caller/src/a"] {
        assert_eq!(answer(&own, path).await, "ran", "{path}");
    }
    for path in [&file("secrets/a"), "../caller/secrets/a"] {
        assert!(answer(&own, path).await.contains("the rule `read(secrets/*)` in `deny`"), "{path}");
    }
    assert!(answer(&own, "src/a").await.contains("`otherwise = \"deny\"`"));
    assert!(answer(&own, "secrets/a").await.contains("`otherwise = \"deny\"`"));
}

/// `~` is one directory for file tools and for rules, including the rules that a user allows in a session.
#[tokio::test]
async fn a_home_directory_is_the_same_files_by_either_name() {
    let written =
        [(Effect::Deny, "read(~/.ssh/*)"), (Effect::Deny, "read(/home/me/.aws/*)"), (Effect::Ask, "read")];
    let own = Rules { home: Some("/home/me".into()), ..rules(&written, None) };
    let session = Session::default();
    session.approvals.allow("read(~/src/*)".parse().unwrap());
    let call = async |rules: &Rules, path: &str| {
        let arguments = json!({"file_path": path});
        let call = ToolCall { id: "1".into(), tool: "read".into(), arguments };
        toolbox(rules).dispatch(call, &session).await.content
    };
    for path in ["~/.ssh/id", "/home/me/.ssh/id", "~/.aws/x", "~you/x"] {
        assert!(call(&own, path).await.contains("refuses the call"), "{path}");
    }
    for path in ["~/src/a", "/home/me/src/a"] {
        assert_eq!(call(&own, path).await, "ran", "{path}");
    }
    let unknown = Rules { home: None, ..own };
    assert!(call(&unknown, "~/src/a").await.contains("refuses the call"));
}
