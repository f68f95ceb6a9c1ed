//! A line of the journal. Every field is bounded. The code that makes a record has masked the secrets in it.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arguments;
use crate::call::ToolCall;
use crate::grant::{CredentialStore, Grant, Reach};
use crate::report::shortened;

/// One call. Fields that are empty are left out of the line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// The version of this form.
    pub v: u32,
    /// Twelve hexadecimal digits that no other call of the journal has.
    pub id: String,
    /// When the call began, UTC, to the millisecond.
    pub time: Timestamp,
    /// What came of it.
    pub outcome: Outcome,
    /// Whether this is the only line of the call: it was over before the first was written.
    #[serde(skip_serializing_if = "is_false")]
    pub merged: bool,
    /// The tool, by the name that models see; what was asked for where there is no such tool.
    pub tool: String,
    /// The arguments; what is too long is replaced by its SHA-256 and its length.
    pub arguments: Value,
    /// The arguments that were replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub digested: Vec<String>,
    /// From dispatch to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// The part of it in which the call waited for a person, where it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<f64>,
    /// Bytes of memory that the tool used at most, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// What the tool answered, where it did what it was asked; of a long answer the beginning and the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The error; of a long one the beginning and the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was allowed, narrowed or refused on the way, and what held the tool to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,
    /// What the tool was allowed; absent where there is no such tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<Granted>,
    /// Where the tool comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// SHA-256 of the component, where the tool is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The agents that the call came through, where an agent made it that is itself a tool: `reviewer/searcher`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The `id` of the call that the last of them answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The caller of `haft serve --http` that made it, where several are told apart: `ci`, or `team/ada` of a JSON Web
    /// Token whose subject is `ada`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// What the call came through: the command of haft, `haft chat`, or the client of `haft serve` by the name that the
    /// client gives of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The program it was called in.
    #[serde(skip_serializing_if = "Program::is_none")]
    pub program: Program,
    /// The caller's own name for the call.
    pub call: String,
    /// The process of haft.
    pub pid: u32,
    /// The version of haft.
    pub haft: String,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has not.
    #[default]
    Started,
    /// The tool did what it was asked.
    Ok,
    /// The tool could not.
    Error,
    /// The arguments were not what the tool takes; it was not run, or said so itself.
    InvalidArguments,
    /// There is no such tool.
    UnknownTool,
    /// The time was over.
    Timeout,
    /// The caller cancelled the call.
    Cancelled,
    /// It was not let run, or failed after the sandbox had refused it something.
    Refused,
    /// Something that a later version knows.
    #[serde(other)]
    Other,
}

/// A program, as people tell it from others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// `[program] name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The program.toml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The worker that ran the call, where it came from another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

/// A grant, in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Granted {
    /// Where the tool might read; `*`: anywhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Where it might write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Where its relative paths started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// What it might reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What it might see of the environment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Credential stores that were open to it; `*`: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<String>,
    /// Whether its processes might use the network.
    #[serde(skip_serializing_if = "is_false")]
    pub network: bool,
    /// Whether its processes might connect to services of the machine.
    #[serde(skip_serializing_if = "is_false")]
    pub unix_sockets: bool,
}

impl Granted {
    /// The same with every text as `clean` leaves it.
    #[must_use]
    pub(crate) fn cleaned(self, clean: impl Fn(String) -> String) -> Self {
        let all = |texts: Vec<String>| texts.into_iter().map(&clean).collect();
        Self {
            read: all(self.read),
            write: all(self.write),
            workspace: self.workspace.map(&clean),
            hosts: all(self.hosts),
            env: all(self.env),
            ..self
        }
    }
}

/// Entries of one list of a grant; more are counted. People write a handful.
const MAX_ENTRIES: usize = 16;

/// Characters of a tool's name, the caller's id and the like, which a model may write as it likes.
const MAX_NAME: usize = 200;

impl Default for Record {
    fn default() -> Self {
        Self {
            v: 1,
            id: String::new(),
            time: Timestamp::UNIX_EPOCH,
            outcome: Outcome::default(),
            merged: false,
            tool: String::new(),
            arguments: Value::Null,
            digested: Vec::new(),
            duration_ms: None,
            waited_ms: None,
            peak_memory: None,
            answer: None,
            error: None,
            decisions: Vec::new(),
            grant: None,
            origin: None,
            digest: None,
            agent: None,
            parent: None,
            caller: None,
            via: None,
            program: Program::default(),
            call: String::new(),
            pid: 0,
            haft: String::new(),
        }
    }
}

impl Record {
    /// Characters of an answer or an error: some screens of a terminal. Whole files and pages do not fit.
    pub(crate) const MAX_ANSWER: usize = 8000;

    /// A call of `program` that begins now. `call` holds no secrets.
    pub fn begun(program: Program, call: &ToolCall) -> Self {
        let (arguments, digested) = arguments::bounded(&call.arguments);
        Self {
            id: new_id(),
            time: now(),
            tool: shortened(&call.tool, MAX_NAME),
            call: shortened(&call.id, MAX_NAME),
            arguments,
            digested,
            program,
            pid: std::process::id(),
            haft: env!("CARGO_PKG_VERSION").to_owned(),
            ..Self::default()
        }
    }

    /// The same call, with the first 8,000 characters of what its caller was answered, which holds no
    /// secrets.
    #[must_use]
    pub fn answered(self, text: &str, is_error: bool) -> Self {
        let text = Some(shortened(text, Self::MAX_ANSWER)).filter(|text| !text.is_empty());
        if is_error { Self { error: text, ..self } } else { Self { answer: text, ..self } }
    }

    /// Adds the line, its end included.
    pub fn write_line(&self, lines: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(&mut *lines, self)?;
        lines.push(b'\n');
        Ok(())
    }
}

impl Outcome {
    /// Whether the call is over and did not do what was asked.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Started | Self::Ok)
    }

    /// The words for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Ok => "ok",
            Self::Error => "error",
            Self::InvalidArguments => "invalid arguments",
            Self::UnknownTool => "unknown tool",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
            Self::Other => "unknown outcome",
        }
    }
}

impl Program {
    /// The program of this name in this file.
    pub fn new(name: Option<&str>, path: Option<&Path>) -> Self {
        let path = path.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        Self {
            name: name.map(str::to_owned),
            path: path.map(|path| path.display().to_string()),
            worker: None,
        }
    }

    /// The same, where the worker `name` runs its calls for other machines.
    #[must_use]
    pub fn on_worker(self, name: &str) -> Self {
        Self { worker: Some(name.to_owned()), ..self }
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl From<&Grant> for Granted {
    fn from(grant: &Grant) -> Self {
        Self {
            read: roots(&grant.readable()),
            write: roots(grant.writable()),
            workspace: grant.workspace().map(|root| root.path().display().to_string()),
            hosts: listed(grant.hosts().iter().map(ToString::to_string)),
            env: listed(grant.env().iter().cloned()),
            credentials: stores(grant.credentials()),
            network: grant.network(),
            unix_sockets: grant.unix_sockets(),
        }
    }
}

fn roots(reach: &Reach) -> Vec<String> {
    match reach {
        Reach::Anywhere => vec!["*".to_owned()],
        Reach::Roots(roots) => listed(roots.iter().map(|root| root.path().display().to_string())),
    }
}

fn stores(open: &BTreeSet<CredentialStore>) -> Vec<String> {
    if open.len() == CredentialStore::all().count() {
        return vec!["*".to_owned()];
    }
    listed(open.iter().map(ToString::to_string))
}

fn listed(entries: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = entries.len().saturating_sub(MAX_ENTRIES);
    let more = (more > 0).then(|| format!("and {more} more"));
    entries.take(MAX_ENTRIES).chain(more).collect()
}

/// Now, as precisely as people compare times.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

/// 48 random bits: the journal holds some hundred thousand calls.
fn new_id() -> String {
    let random = RandomState::new().hash_one((std::process::id(), Timestamp::now().as_nanosecond()));
    format!("{:012x}", random & 0xffff_ffff_ffff)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::grant::{Root, SandboxMode};

    fn line(record: &Record) -> String {
        let mut line = Vec::new();
        record.write_line(&mut line).unwrap();
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_line_says_what_was_called_and_no_more_than_there_is_to_say() {
        let call = ToolCall { id: "c1".into(), tool: "bash".into(), arguments: json!({ "command": "ls\n" }) };
        let record = Record::begun(Program::new(Some("notes"), None), &call);
        let line = line(&record);
        assert!(line.ends_with("}\n") && line.lines().count() == 1, "{line}");
        let value: Value = serde_json::from_str(&line).unwrap();
        let fields: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            fields,
            ["v", "id", "time", "outcome", "tool", "arguments", "program", "call", "pid", "haft"]
        );
        assert_eq!(value["outcome"], "started");
        let time = value["time"].as_str().unwrap();
        assert!(time.ends_with('Z') && time.len() <= "2026-01-01T00:00:00.000Z".len(), "{time}");
        assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);
    }

    /// A journal of another version can be read.
    #[test]
    fn unknown_fields_and_outcomes_are_passed_over() {
        let record: Record = serde_json::from_str(r#"{"id":"1","outcome":"vanished","new":{}}"#).unwrap();
        assert_eq!((record.id.as_str(), record.outcome), ("1", Outcome::Other));
    }

    #[test]
    fn whatever_a_model_writes_a_line_is_short() {
        let long = "\u{1}".repeat(1 << 20);
        let arguments = json!({ "a": long, "b": { "c": [long] } });
        let call = ToolCall { id: long.clone(), tool: long.clone(), arguments };
        let record = Record::begun(Program::default(), &call).answered(&long, true);
        assert!(line(&record).len() < super::super::MAX_LINE / 2);
    }

    #[test]
    fn a_grant_is_told_in_short() {
        let root = |path: &str| Root::resolve(Path::new("/"), Path::new(path)).unwrap();
        let grant = Grant::sandbox(SandboxMode::Sandbox, root("/tmp"), []).with_env("LANG");
        let granted = serde_json::to_value(Granted::from(&grant)).unwrap();
        assert_eq!(
            granted,
            json!({ "read": ["*"], "write": ["/tmp"], "workspace": "/tmp", "env": ["LANG"], "network": true })
        );
        let many = (0..40).fold(Grant::none(), |grant, n| grant.with_env(format!("V{n:02}")));
        assert_eq!(Granted::from(&many).env.last().unwrap(), "and 24 more");
    }
}
