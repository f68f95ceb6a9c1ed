//! A record of the journal. Every field is bounded. The code that makes a record has redacted the secrets in it.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::ToolCall;
use crate::grant::{CredentialStore, Grant, Reach};
use crate::journal;
use crate::report::shortened;

/// A call. Empty fields are omitted from the line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// The version of the format.
    pub v: u32,
    /// Twelve hexadecimal digits, unique in the journal.
    pub id: String,
    /// The start of the call, UTC, in milliseconds.
    pub time: Timestamp,
    /// The outcome.
    pub outcome: Outcome,
    /// Whether this is the only line of the call: it ended before the first line was written.
    #[serde(skip_serializing_if = "is_false")]
    pub merged: bool,
    /// The tool, by the name that models see; the requested name if there is no such tool.
    pub tool: String,
    /// The arguments; long ones are replaced by their SHA-256 and length.
    pub arguments: Value,
    /// The names of the replaced arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub digested: Vec<String>,
    /// The time from dispatch to answer in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// The part of the duration in which the call waited for a user, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<f64>,
    /// The peak memory of the tool in bytes, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// The answer of a successful call; a long one is shortened in the middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The error; a long one is shortened in the middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The decisions to allow, narrow or refuse an access, and the mechanism that enforced them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,
    /// The grant of the tool; absent if there is no such tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<Granted>,
    /// The origin of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The SHA-256 of the component, if the tool is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The agents on the way to the call, if an agent that is itself a tool made it: `reviewer/searcher`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The `id` of the call that the last of them answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The caller of `haft serve --http`, if there are several: `ci`, or `team/ada` for a JSON Web Token with the
    /// subject `ada`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The origin of the call: the command of haft, `haft chat`, or the client of `haft serve` by the name that it
    /// reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The program of the call.
    #[serde(skip_serializing_if = "Program::is_none")]
    pub program: Program,
    /// The caller's id of the call.
    pub call: String,
    /// The process id of haft.
    pub pid: u32,
    /// The version of haft.
    pub haft: String,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The call has not ended.
    #[default]
    Started,
    /// The tool succeeded.
    Ok,
    /// The tool failed.
    Error,
    /// The arguments were invalid, according to the schema or the tool itself.
    InvalidArguments,
    /// The tool does not exist.
    UnknownTool,
    /// The time limit was reached.
    Timeout,
    /// The caller cancelled the call.
    Cancelled,
    /// The call was refused, or failed after the sandbox had refused it an access.
    Refused,
    /// An outcome of a later version.
    #[serde(other)]
    Other,
}

/// The program of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// `[program] name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The path of program.toml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The worker that ran the call, if the call is from another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

/// A grant in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Granted {
    /// The readable directories; `*`: anywhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// The writable directories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// The base directory of relative paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The allowed network destinations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The visible environment variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The open credential stores; `*`: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<String>,
    /// Whether child processes could use the network.
    #[serde(skip_serializing_if = "is_false")]
    pub network: bool,
    /// Whether child processes could connect to services of the machine.
    #[serde(skip_serializing_if = "is_false")]
    pub unix_sockets: bool,
    /// The services that child processes might use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
}

impl Granted {
    /// Applies `clean` to every text.
    #[must_use]
    pub(crate) fn cleaned(self, clean: impl Fn(String) -> String) -> Self {
        let all = |texts: Vec<String>| texts.into_iter().map(&clean).collect();
        Self {
            read: all(self.read),
            write: all(self.write),
            workspace: self.workspace.map(&clean),
            hosts: all(self.hosts),
            env: all(self.env),
            services: all(self.services),
            ..self
        }
    }
}

/// The maximum number of entries in a list of a grant; the rest is counted. People write a handful.
const MAX_ENTRIES: usize = 16;

/// The maximum number of characters of a tool's name, a caller's id and other texts that a model may choose.
const MAX_NAME: usize = 200;

impl Record {
    /// The maximum number of characters of an answer or an error: some screens of a terminal. Complete files and
    /// pages do not fit.
    pub(crate) const MAX_ANSWER: usize = 8000;

    /// Returns the record of a call that begins now. `call` holds no secrets.
    pub fn begun(program: Program, call: &ToolCall) -> Self {
        let (arguments, digested) = journal::bounded(&call.arguments);
        Self {
            v: 1,
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

    /// Adds the first 8,000 characters of the answer, which holds no secrets.
    #[must_use]
    pub fn answered(self, text: &str, is_error: bool) -> Self {
        let text = Some(shortened(text, Self::MAX_ANSWER)).filter(|text| !text.is_empty());
        if is_error { Self { error: text, ..self } } else { Self { answer: text, ..self } }
    }

    /// Appends the line with its end.
    pub fn write_line(&self, lines: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(&mut *lines, self)?;
        lines.push(b'\n');
        Ok(())
    }
}

impl Outcome {
    /// Returns whether the call has ended without success.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Started | Self::Ok)
    }

    /// Returns the outcome in words.
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
    /// Returns the program of this name and file.
    pub fn new(name: Option<&str>, path: Option<&Path>) -> Self {
        let path = path.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        Self {
            name: name.map(str::to_owned),
            path: path.map(|path| path.display().to_string()),
            worker: None,
        }
    }

    /// Sets the worker that runs the calls for other machines.
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
        let hosts = grant.hosts().iter().chain(grant.child_hosts()).map(ToString::to_string);
        let hosts: Vec<String> = hosts.collect();
        Self {
            read: roots(&grant.readable()),
            write: roots(grant.writable()),
            workspace: grant.workspace().map(|root| root.path().display().to_string()),
            hosts: listed(hosts.into_iter()),
            env: listed(grant.env().iter().cloned()),
            credentials: stores(grant.credentials()),
            network: grant.network(),
            unix_sockets: grant.unix_sockets(),
            services: listed(grant.services().iter().map(ToString::to_string)),
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

/// Returns the current time in milliseconds.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

/// Returns 48 random bits: the journal holds some hundred thousand calls.
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
