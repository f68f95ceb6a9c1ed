//! Asks the user before a tool runs. A question shows everything that would run, with control characters
//! neutralised; only an explicit yes of the user is an approval.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::watch;

use super::rules::{Places, is_allowed};
use super::subject::Subject;
use super::{Difference, Keep, clip};
use crate::call::ToolCall;
use crate::grant::{Grant, Root};
use crate::report::is_hidden;
use crate::rule::RulePattern;
use crate::sync::Lock;

/// A question to the user about one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// The id of the call.
    pub call: String,
    /// The tool that would run.
    pub tool: String,
    /// The agent that makes the call, if the agent is a tool.
    pub agent: Option<String>,
    /// The verb of the question: `Run` or `Fetch`.
    pub verb: &'static str,
    /// The command, the URL or the arguments: complete except for the part in `difference`, with control characters
    /// made visible.
    pub what: String,
    /// The lines that the call would replace, if its arguments determine them: for a user of this machine, because the
    /// lines may come from a file.
    pub difference: Option<Difference>,
    /// The question as one text, from the arguments alone, for a client on another machine.
    pub text: String,
    /// The arguments of the call, without secrets.
    pub arguments: Value,
    /// The rule that allows exactly this call, if a rule can express that and the call contains no secret.
    pub rule: Option<RulePattern>,
    /// The command that writes the requested rights to program.toml, if they can be written:
    /// `haft grant bash write=/data`.
    pub written_by: Option<String>,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The user approved this call.
    Approved,
    /// The user approved this and every further call of the tool in this session.
    Always,
    /// The user approved, and requested that the rights be written to program.toml; only if the question offers that.
    Written,
    /// The user denied the call, or gave an answer other than yes.
    Denied,
    /// No person answered; why, as the end of a sentence.
    Unasked(String),
}

/// Asks the user. Several calls may ask concurrently.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Asks the question. Dropping the future withdraws it.
    async fn ask(&self, question: &Question) -> Decision;
}

/// The rules that the user approved for the session.
type Allowed = Arc<watch::Sender<Vec<RulePattern>>>;

/// The approver of a session; none by default. Clones share it, and an answer of `always` holds for all of them.
#[derive(Clone, Default)]
pub struct Approvals {
    approver: Option<Arc<dyn Approver>>,
    /// The calls that the user has allowed for the session.
    always: Allowed,
    /// The approvals of agents that are tools, by the path of agents.
    agents: Arc<Lock<BTreeMap<String, Allowed>>>,
}

/// A call that waits for the user's approval.
pub(super) struct Asked<'a> {
    pub(super) call: &'a ToolCall,
    pub(super) subject: Subject,
    /// The base directories of relative paths, and of paths with `~`.
    pub(super) places: Places<'a>,
    /// The agent that makes the call, if the agent is a tool.
    pub(super) agent: Option<String>,
    /// The arguments without secrets.
    pub(super) public: Value,
    /// The current text of the file that the call changes, if known.
    pub(super) file: Option<String>,
}

/// Maximum time for the user's answer. After that the call is refused, and can be made again.
const PATIENCE: Duration = Duration::from_mins(10);

/// Maximum number of characters of a question, enough for a long script. Of a longer question the beginning and the end
/// are shown, with a notice between them.
const MAX_QUESTION: usize = 20_000;

impl Approvals {
    /// Asks `approver`.
    pub fn by(approver: impl Approver + 'static) -> Self {
        Self { approver: Some(Arc::new(approver)), ..Self::default() }
    }

    /// Returns approvals that share the answers of `always` and ask `approver` from now on.
    #[must_use]
    pub fn asking(&self, approver: impl Approver + 'static) -> Self {
        Self { approver: Some(Arc::new(approver)), ..self.clone() }
    }

    /// Allows every further call that the rule means.
    pub fn allow(&self, rule: RulePattern) {
        self.always.send_if_modified(|always| {
            let is_new = !always.contains(&rule);
            if is_new {
                always.push(rule);
            }
            is_new
        });
    }

    /// Returns the approvals of the agent at `path`, such as `reviewer/reader`. They ask the session's user, and do not
    /// share the approvals of other agents.
    #[must_use]
    pub fn of_agent(&self, path: &str) -> Self {
        let always = self.agents.lock().entry(path.to_owned()).or_default().clone();
        Self { approver: self.approver.clone(), always, agents: self.agents.clone() }
    }

    /// Removes a rule, or all rules of the tool with this name, also from agents. A rule with the path of an agent and
    /// `: ` as its prefix is removed from that agent alone. Returns whether a rule was removed.
    pub fn withdraw(&self, rule: &str) -> bool {
        let mut is_withdrawn = withdraw(&self.always, rule);
        for (agent, always) in self.of_agents() {
            let own = rule.strip_prefix(&agent).and_then(|rest| rest.strip_prefix(": "));
            is_withdrawn |= withdraw(&always, own.unwrap_or(rule));
        }
        is_withdrawn
    }

    /// Returns the rules for the session, oldest first.
    pub fn allowed(&self) -> Vec<RulePattern> {
        self.always.borrow().clone()
    }

    /// Returns the rules that hold for agents in the session, each with the agent's path.
    pub fn allowed_to_agents(&self) -> Vec<(String, RulePattern)> {
        let lists = self.of_agents().into_iter();
        let named = |(agent, always): (String, Allowed)| {
            let rules = always.borrow().clone();
            rules.into_iter().map(move |rule| (agent.clone(), rule))
        };
        lists.flat_map(named).collect()
    }

    fn of_agents(&self) -> Vec<(String, Allowed)> {
        self.agents.lock().iter().map(|(agent, always)| (agent.clone(), always.clone())).collect()
    }

    /// Ends as soon as the call is allowed for the session: also while a question about it is waiting its turn.
    async fn is_allowed(&self, asked: &Asked<'_>) {
        let mut always = self.always.subscribe();
        // The sender lives as long as `self`.
        let _ = always.wait_for(|always| always.iter().any(|rule| asked.is_meant(rule))).await;
    }

    pub(super) async fn ask(&self, asked: &Asked<'_>, redact: impl Fn(String) -> String) -> Decision {
        let question = asked.question(redact);
        tokio::select! {
            biased;
            () = self.is_allowed(asked) => Decision::Always,
            decision = self.question(&question) => decision,
        }
    }

    /// Asks a question that is not about a call.
    pub async fn question(&self, question: &Question) -> Decision {
        let decision = self.put(question).await;
        if decision == Decision::Always
            && let Ok(tool) = question.tool.parse()
        {
            self.allow(RulePattern::every(tool));
        }
        decision
    }

    /// Asks a question whose answer alone allows nothing.
    pub(super) async fn put(&self, question: &Question) -> Decision {
        let Some(approver) = &self.approver else {
            return Decision::Unasked("no person can be asked".into());
        };
        let answered = tokio::time::timeout(PATIENCE, approver.ask(question)).await;
        answered.unwrap_or_else(|_| {
            Decision::Unasked(format!("no answer within {} minutes", PATIENCE.as_secs() / 60))
        })
    }
}

/// Removes a rule, or all rules of the tool with this name, from a list. Returns whether a rule was removed.
fn withdraw(always: &Allowed, rule: &str) -> bool {
    always.send_if_modified(|always| {
        let before = always.len();
        always.retain(|own| own.tools().as_str() != rule && own.to_string() != rule);
        always.len() < before
    })
}

impl Asked<'_> {
    fn is_meant(&self, rule: &RulePattern) -> bool {
        let is_meant = |about| is_allowed(about, &self.subject, self.places);
        rule.tools().matches(&self.call.tool) && rule.about().is_none_or(is_meant)
    }

    /// Returns the question about the call. `redact` removes secrets.
    fn question(&self, redact: impl Fn(String) -> String) -> Question {
        let tool = &self.call.tool;
        let file = self.file.clone().map(&redact);
        let difference = Difference::of(&self.public, file.as_deref());
        let shown =
            |difference: Option<&Difference>| redact(self.subject.shown(tool, &self.public, difference));
        let what = clip(&shown(difference.as_ref()), MAX_QUESTION, Keep::Ends);
        let sent = Difference::of(&self.public, None);
        let lines = sent.as_ref().map(|sent| format!("\n{sent}")).unwrap_or_default();
        let text = clip(&(shown(sent.as_ref()) + &lines), MAX_QUESTION, Keep::Ends);
        let about = self.subject.text();
        let is_public = redact(about.to_owned()) == about;
        let rule = is_public.then(|| RulePattern::exactly(tool, about)).flatten();
        let call = self.call.id.clone();
        let (tool, agent, verb) = (tool.clone(), self.agent.clone(), self.subject.verb());
        let (what, text, arguments) = (visible(&what), visible(&text), self.public.clone());
        let difference = difference.map(|difference| difference.cleaned(visible));
        Question { call, tool, agent, verb, what, difference, text, arguments, rule, written_by: None }
    }
}

/// Returns a question about something other than a call: `what` is its complete text.
pub(super) fn question_of(call: &ToolCall, tool: &str, verb: &'static str, what: &str) -> Question {
    let what = visible(&clip(what, MAX_QUESTION, Keep::Ends));
    let (call, tool, text) = (call.id.clone(), tool.to_owned(), what.clone());
    Question { call, tool, verb, what, text, ..Question::default() }
}

/// Returns `text` with escapes instead of characters that move the cursor, colour, delete or reorder text, so that it
/// reads as another (Unicode Technical Report 36, section 3.2; CVE-2021-42574).
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) && !matches!(c, '\n' | '\t') {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Approvals").field(&self.approver.is_some()).finish()
    }
}

// The user who answers the questions of MCP servers. haft never answers for the user.

/// Passes the questions of MCP servers to the user.
#[async_trait]
pub trait Elicitor: std::fmt::Debug + Send + Sync {
    /// Asks one question at a time. Waits without a limit for the user.
    async fn ask(&self, question: &ElicitationQuestion) -> Reply;
}

/// A question of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct ElicitationQuestion {
    /// The name of the server.
    pub server: String,
    /// The server's key of the question, if several are asked at once.
    pub key: Option<String>,
    /// The server's own text: untrusted, and it must not steer a terminal.
    pub message: String,
    /// The form of the answer.
    pub mode: ElicitationMode,
}

/// The form of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationMode {
    /// A flat object, as this JSON Schema describes it.
    Form(Value),
    /// The user is asked to open this URL, which the server chose, and to confirm.
    Page(String),
}

impl ElicitationMode {
    /// Returns the number of displayed bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Form(schema) => schema.to_string().len(),
            Self::Page(url) => url.len(),
        }
    }
}

/// The user's reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The requested object; `None` if none was requested.
    Accept(Option<Value>),
    /// The person declines.
    Decline,
    /// The person gave no answer.
    Cancel,
}

// The current content of the file that a call would change, for the difference in a question. Refuses paths that the tool may
// not read, files that are not text, and large files.

/// Maximum size of a compared file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Returns the text of the file at `path`, as a caller writes it, if `grant` lets the tool read it; empty if the
/// file does not exist. `None` if the text is unknown.
pub(super) async fn current_text(path: &str, places: Places<'_>, grant: &Grant) -> Option<String> {
    let (path, grant) = (absolute(path, places)?, grant.clone());
    tokio::task::spawn_blocking(move || read(&path, &grant)).await.ok()?
}

fn absolute(path: &str, places: Places<'_>) -> Option<PathBuf> {
    match path.strip_prefix('~') {
        Some(below) if below.starts_with('/') => Some(places.home?.join(below.trim_start_matches('/'))),
        Some(_) => None,
        None => Some(places.workspace?.join(path)),
    }
}

fn read(path: &Path, grant: &Grant) -> Option<String> {
    let root = |path: &Path| Root::resolve(Path::new("/"), path);
    let file = root(path).ok().filter(|file| grant.readable().covers(file) && !grant.hides(file))?;
    let (folder, name) = (file.real().parent()?, file.real().file_name()?);
    let folder = root(folder).and_then(|folder| folder.folder());
    match folder.and_then(|folder| folder.read(Path::new(name), MAX_FILE + 1)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Some(String::new()),
        content => String::from_utf8(content.ok().filter(|content| content.size <= MAX_FILE)?.bytes).ok(),
    }
}

#[cfg(test)]
mod tests;
