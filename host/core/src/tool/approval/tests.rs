use std::sync::Mutex;

use serde_json::{Value, json};

use super::*;
use crate::call::{ToolCall, ToolDef, ToolResult};
use crate::grant::Grant;
use crate::limit::Limits;
use crate::tool::{Context, Session, Tool, ToolError, Toolbox};

struct Shell(ToolDef);

#[async_trait]
impl Tool for Shell {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    async fn call(&self, call: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::success(format!("ran {}", call.arguments["command"])))
    }

    fn subject(&self, arguments: &Value) -> Subject {
        Subject::command(arguments, "command")
    }
}

/// Gives one answer to every question, and records the questions.
#[derive(Clone)]
struct Person(Decision, Arc<Mutex<Vec<Question>>>);

#[async_trait]
impl Approver for Person {
    async fn ask(&self, question: &Question) -> Decision {
        self.1.lock().unwrap().push(question.clone());
        self.0.clone()
    }
}

fn toolbox() -> Toolbox {
    let parameters =
        json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
    let def = ToolDef { name: "bash".into(), parameters, ..ToolDef::default() };
    let setting = "`shell_confirm = true` in `[builtins]`";
    let mut toolbox = Toolbox::default();
    let limits = Limits::default();
    toolbox.insert_asking(Arc::new(Shell(def)), Grant::none(), limits, "the test", setting).unwrap();
    toolbox
}

async fn call(decision: Decision, arguments: Value) -> (ToolResult, Vec<Question>) {
    let person = Person(decision, Arc::default());
    let session = Session { approvals: Approvals::by(person.clone()), ..Session::default() };
    let call = ToolCall { id: "1".into(), tool: "BASH".into(), arguments };
    let result = toolbox().dispatch(call, &session).await;
    let asked = person.1.lock().unwrap().clone();
    (result, asked)
}

/// RS06: an approved call runs; the answer to a denied call states the denial.
#[tokio::test]
async fn a_person_s_yes_runs_it_and_a_no_does_not() {
    let (result, asked) = call(Decision::Approved, json!({"command": "ls\r\u{1b}[2K\u{202e}x"})).await;
    assert!(!result.is_error && result.content.starts_with("ran "), "{result:?}");
    let what = "ls\\u{d}\\u{1b}[2K\\u{202e}x".to_owned();
    assert_eq!(
        asked,
        [Question {
            call: "1".into(),
            tool: "bash".into(),
            agent: None,
            verb: "Run",
            text: what.clone(),
            what,
            difference: None,
            arguments: json!({"command": "ls\r\u{1b}[2K\u{202e}x"}),
            rule: None,
            written_by: None
        }],
        "and no rule says such a text"
    );
    let (result, _) = call(Decision::Denied, json!({"command": "ls"})).await;
    assert_eq!(result, ToolResult::error("Command execution denied by user."));
}

/// RS07: if no user can be asked, the call does not run, and the error names the remedy.
#[tokio::test]
async fn where_nobody_can_be_asked_nothing_runs() {
    let call = ToolCall { id: "1".into(), tool: "bash".into(), arguments: json!({"command": "ls"}) };
    let result = toolbox().dispatch(call, &Session::default()).await;
    assert!(result.is_error);
    assert_eq!(
        result.content,
        "`bash` did not run: it needs a person's approval, and no person can be asked\nhint: call it where a \
         person can answer: from a terminal, on `haft dashboard`, or from an MCP client with elicitation; or \
         remove `shell_confirm = true` in `[builtins]`"
    );
}

/// An invalid call causes no question.
#[tokio::test]
async fn wrong_arguments_are_no_question() {
    let (result, asked) = call(Decision::Approved, json!({"command": 1})).await;
    assert!(result.content.starts_with("invalid arguments: "), "{result:?}");
    assert_eq!(asked, []);
}

/// Cancelling a call withdraws its unanswered question.
#[tokio::test]
async fn a_cancelled_call_waits_for_no_answer() {
    struct Away;
    #[async_trait]
    impl Approver for Away {
        async fn ask(&self, _: &Question) -> Decision {
            std::future::pending().await
        }
    }
    let session = Session { approvals: Approvals::by(Away), ..Session::default() };
    session.cancel.cancel();
    let call = ToolCall { id: "1".into(), tool: "bash".into(), arguments: json!({"command": "ls"}) };
    let result = toolbox().dispatch(call, &session).await;
    assert_eq!(result.content, "Tool error (haft): `bash` was cancelled");
}

#[test]
fn what_is_too_long_is_not_hidden_in_silence() {
    let shown = visible(&clip(&"x".repeat(MAX_QUESTION * 2), MAX_QUESTION, Keep::Ends));
    assert!(shown.contains("40000 total chars") && shown.len() <= MAX_QUESTION, "{}", shown.len());
}

/// Rules for agents are listed, and can be removed from all of them or from one.
#[test]
fn rules_that_agents_have_are_seen_and_taken_back() {
    let all = Approvals::default();
    let agents = ["reviewer", "reviewer/reader"].map(|path| all.of_agent(path));
    let bash: RulePattern = "bash".parse().unwrap();
    let give = || agents.iter().for_each(|agent| agent.allow(bash.clone()));
    give();
    assert!(all.allowed().is_empty());
    let named = |path: &str| (path.to_owned(), bash.clone());
    assert_eq!(all.allowed_to_agents(), [named("reviewer"), named("reviewer/reader")]);
    assert!(all.withdraw("reviewer: bash") && !all.withdraw("reviewer: bash"));
    assert_eq!(all.allowed_to_agents(), [named("reviewer/reader")]);
    give();
    all.allow(bash.clone());
    assert!(all.withdraw("bash") && all.allowed().is_empty() && all.allowed_to_agents().is_empty());
    assert!(!all.withdraw("bash") && agents.iter().all(|agent| agent.allowed().is_empty()));
}

/// U3: only a user of this machine sees lines of a file; a remote client gets its own text alone.
#[test]
fn a_client_elsewhere_is_sent_no_line_of_a_file() {
    let arguments = json!({"file_path": "a", "content": "new\n"});
    let call = ToolCall { id: "1".into(), tool: "write".into(), arguments: arguments.clone() };
    let asked = Asked {
        call: &call,
        subject: Subject::Path("a".into()),
        places: Places::default(),
        agent: None,
        public: arguments,
        file: Some("kept from others\n".into()),
    };
    let question = asked.question(|text| text);
    assert_eq!(question.what, "write a");
    assert!(question.difference.unwrap().to_string().contains("- kept from others"));
    assert_eq!(question.text, "write a\n  content:\n    new");
}

/// U3: only a small text file that the tool may read is compared.
#[tokio::test]
async fn only_a_small_file_of_text_that_the_tool_may_read_is_compared() {
    let place = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(place.path().join(name), bytes).unwrap();
    write("a", b"one\n");
    write("b", b"\xff");
    write("c", &vec![b'x'; 1 + (1 << 20)]);
    write("hidden", b"x");
    std::fs::write(outside.path().join("x"), "x").unwrap();
    std::os::unix::fs::symlink(outside.path().join("x"), place.path().join("link")).unwrap();
    let root = |path: &Path| Root::resolve(Path::new("/"), path).unwrap();
    let grant = Grant::none().with_read(root(place.path())).with_hidden(root(&place.path().join("hidden")));
    let places = Places { base: None, workspace: Some(place.path()), home: Some(place.path()) };
    for (path, expected) in [
        ("a", Some("one\n")),
        ("~/a", Some("one\n")),
        ("none", Some("")),
        ("none/either", Some("")),
        ("b", None),
        ("c", None),
        (".", None),
        ("hidden", None),
        ("link", None),
        ("/etc/hostname", None),
    ] {
        assert_eq!(current_text(path, places, &grant).await.as_deref(), expected, "{path}");
    }
    assert_eq!(current_text("/dev/zero", places, &grant.with_read_anywhere()).await, None);
    assert_eq!(
        current_text("a", Places::default(), &Grant::none()).await,
        None,
        "nobody knows where it starts"
    );
}
