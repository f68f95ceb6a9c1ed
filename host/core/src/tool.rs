//! One callable thing, and the box of them. Plugins, command tools, MCP servers and native
//! tools are four sources of the same [`Tool`]; [`Toolbox`] is the only door to any of them.

mod approval;
mod arguments;
mod bounds;
mod budget;
mod caller;
mod clip;
mod coercion;
mod detail;
mod difference;
mod elicitation;
mod entry;
mod foreign;
mod generic;
mod hook;
pub mod inline;
mod meter;
mod mistakes;
mod notes;
mod plan;
mod present;
mod rules;
mod schema_mending;
mod search;
mod session;
mod subject;
mod terminal;
mod toolbox;
mod watch;
mod widening;

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::call::{PromptDef, ResourceList, ToolCall, ToolDef, ToolResult};
use crate::event::Events;
use crate::grant::Grant;
use crate::limit::Limits;

pub use self::approval::{Approvals, Approver, Decision, Question};
pub use self::arguments::{AnswerSchemaError, ArgumentsError, Schema, SchemaError};
pub use self::bounds::Bounds;
pub use self::budget::{bytes, tokens};
pub use self::caller::{Caller, Own};
pub use self::clip::{Clipper, Keep, clip};
pub use self::detail::{in_a_line, in_full};
pub use self::difference::Difference;
pub use self::elicitation::{ElicitationMode, ElicitationQuestion, Elicitor, Reply};
pub use self::entry::Entry;
pub use self::foreign::foreign;
pub use self::hook::{Hook, Objection, Seen};
pub use self::meter::{AgentUse, Meter, Most, UsedUp};
pub use self::notes::{CallNotes, Notes};
pub use self::plan::PLAN_HINT;
pub use self::rules::{Rule, Rules, may_run};
pub use self::schema_mending::{MendedSchema, mend};
pub use self::session::{Client, Ledger, Lineage, Session, Whole};
pub use self::subject::{Subject, SubjectArgument};
pub use self::toolbox::{DuplicateTool, Toolbox};
pub use self::widening::Widening;

/// What makes a tool ready to be called.
pub type Preparation<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One callable thing.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What a model is told about it. The same on every call.
    fn def(&self) -> &ToolDef;

    /// Does it. The arguments have been checked against [`ToolDef::parameters`].
    ///
    /// `Ok` carries failures too, where the tool worked and what it ran did not (a command
    /// that exits with 1). Dropping the future must stop whatever was started.
    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError>;

    /// What has to be done once before the tool can be called, such as compiling it; nothing as soon as that is done. It
    /// is waited for before a call, whose time begins after it. A call that is made all the same does it itself.
    fn preparation(&self) -> Option<Preparation<'_>> {
        None
    }

    /// Why a call with these arguments is refused, whether approved or not. Checked before a person is asked.
    fn refusal(&self, _arguments: &Value) -> Option<ToolError> {
        None
    }

    /// What a call with these arguments is about: what rules are compared with, and a person is shown who is asked. The
    /// default is all of the arguments.
    fn subject(&self, arguments: &Value) -> Subject {
        Subject::arguments(arguments)
    }

    /// The path of the file on this machine that a call with these arguments is about, as the caller wrote it: a person who
    /// is asked is shown what would change there. The default is none.
    fn file<'a>(&self, _arguments: &'a Value) -> Option<&'a str> {
        None
    }

    /// Whether the future of [`Tool::call`] may first be polled on the thread that read the call, so that a
    /// short call costs no switch of threads. A hint about the next call with the rights `grant`; `false` is
    /// always right, and the default.
    ///
    /// `true` promises that the first poll only computes, for well under a millisecond, and reads files of this machine: it
    /// starts no thread or process, and returns `Pending` where it would wait. The future is moved to the runtime at its first
    /// `Pending`, so everything after that is free of this promise.
    ///
    /// Where the promise is broken, that caller's further calls and its cancel are not read before the poll returns,
    /// and opening or starting something may fail, since the thread can be confined. Nothing becomes unsafe, and
    /// rights, approval, limits and journal are those of any other call.
    fn may_run_inline(&self, _grant: &Grant) -> bool {
        false
    }

    /// Whether a call with the rights `grant` might change or send anything, whatever the tool declares: such
    /// a call is in the journal before it runs, another one a moment later. `true` is always right, and the
    /// default.
    fn may_have_effects(&self, _grant: &Grant) -> bool {
        true
    }

    /// Whether the tool acts with rights that were settled before the call, as a server that runs already does: with
    /// a narrower [`Context::grant`] it does the same as with a wider one. `false`, the default, promises that it does
    /// nothing that the grant of the call does not allow; plan mode withholds all others.
    fn has_fixed_rights(&self) -> bool {
        false
    }

    /// Whether what a call changes is kept for anyone who wants to undo it ([`Caller::keeper`]). `false`, the
    /// default, has the call named to them.
    fn keeps_changes(&self) -> bool {
        false
    }

    /// Whether it is an agent, whose calls a model makes several of to have them done at the same time. `false` is the
    /// default.
    fn is_agent(&self) -> bool {
        false
    }

    /// What clients are shown where this is a prompt or resources, and no tool: see [`Toolbox::insert_offer`].
    fn offer(&self) -> Option<Offer<'_>> {
        None
    }

    /// What an MCP server says of it, where it is a tool of one. MCP clients are shown that.
    fn served(&self) -> Option<Served<'_>> {
        None
    }

    /// SHA-256 of what is run, in hexadecimal, where the tool is a component.
    fn digest(&self) -> Option<&str> {
        None
    }
}

/// What an MCP server says of a tool or a prompt.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// The name of the server in program.toml.
    pub server: &'a str,
    /// The definition as the server sent it, without secrets, and with schemas that clients can use.
    pub definition: &'a Value,
}

/// What a prompt or resources are to clients.
#[derive(Clone, Copy, Debug)]
pub enum Offer<'a> {
    /// A prompt, by the name that clients know. A call has its arguments.
    Prompt(&'a PromptDef),
    /// Resources, by the URIs that clients know. A call has one of these, as `uri`.
    Resources {
        /// What all of these begin with, and none of any other.
        prefix: &'a str,
        /// What there is.
        list: &'a ResourceList,
    },
    /// A prompt of an MCP server. A call has a `method` of the protocol and its `params`, as the server knows them.
    ServerPrompt {
        /// The prompt.
        prompt: Served<'a>,
        /// Whether the server completes its arguments.
        completes: bool,
    },
    /// The resources of an MCP server. A call is as one of its prompts.
    ServerResources {
        /// The name of the server in program.toml.
        server: &'a str,
        /// The resources and the templates, as the server listed them.
        listed: &'a ServerResources,
        /// The URIs of resources that have changed, as the server says them of those that it was asked to watch.
        updates: &'a broadcast::Sender<Arc<str>>,
    },
}

/// The resources of an MCP server as it listed them, without secrets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerResources {
    /// `Resource` of the protocol.
    pub resources: Vec<Value>,
    /// `ResourceTemplate` of the protocol.
    pub templates: Vec<Value>,
    /// Whether the server completes the parameters of templates.
    pub completes: bool,
    /// Whether the server tells of changes of a resource.
    pub watches: bool,
}

/// What a call is handed.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// What the call may do.
    pub grant: &'a Grant,
    /// What the call may use. [`Toolbox::dispatch`] enforces the time; the tool the rest.
    pub limits: &'a Limits,
    /// Where to tell what happens.
    pub events: &'a Events,
    /// Cancelled when the caller no longer wants the answer.
    pub cancel: &'a CancellationToken,
    /// Where to note what the journal should say of the call.
    pub notes: &'a Notes,
    /// Where to leave the whole of an answer that is shortened.
    pub whole: &'a Whole,
    /// The client that makes the call.
    pub client: Client,
    /// Who makes the call, for a tool that makes calls of its own.
    pub caller: Caller<'a>,
    /// Whether a person was asked, and approved.
    pub approved: bool,
}

/// Why a tool gave no answer. Becomes an answer in [`Toolbox::dispatch`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The arguments make no sense to the tool; the model should call again with others.
    #[error("invalid arguments: {0}")]
    InvalidArguments(String),
    /// The tool could not do what it was asked, in its own words.
    #[error("Tool error: {0}")]
    ExecutionFailed(String),
    /// haft stopped the tool or could not run it, in haft's words. A tool cannot say this: whatever it
    /// declares is one of the other two.
    #[error("Tool error (haft): {0}")]
    Host(String),
}

// Names that every vendor accepts. Refuses nothing: whatever a plugin or a server calls its
// tool, a usable name comes out, the same one on every run.

/// The longest name that OpenAI, Anthropic and Gemini all accept.
const MAX_NAME: usize = 64;

/// Hexadecimal digits that tell shortened names apart: 32 bits, for the few dozen names of a program.
const HASH_DIGITS: usize = 8;

/// Joins `parts` with `__` into a name that matches `^[a-zA-Z0-9_-]{1,64}$`.
///
/// A name that had to be changed (too long, or with characters that vendors refuse) ends in a
/// hash of what it was, so that two tools never become one.
pub fn exposed_name(parts: &[&str]) -> String {
    name_within(&parts.join("__"), MAX_NAME)
}

/// The longest name that MCP clients are told: they put the name that they know haft by before it (`mcp__haft__`), for which
/// that leaves 16 characters.
const MAX_CLIENT_NAME: usize = MAX_NAME - 16;

/// Returns the name that MCP clients are told for the tool or prompt `name`: one of more than 48 characters is shortened as
/// [`exposed_name`] does.
pub fn client_name(name: &str) -> String {
    name_within(name, MAX_CLIENT_NAME)
}

fn name_within(full: &str, most: usize) -> String {
    let clean: String = full.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
    if clean == full && (1..=most).contains(&clean.len()) {
        return clean;
    }
    let kept: String = clean.chars().take(most - HASH_DIGITS - 1).collect();
    format!("{kept}_{}", hash(full))
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let hex = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    hex.take(HASH_DIGITS).filter_map(|nibble| char::from_digit(nibble.into(), 16)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn usable_names_stay_as_they_are() {
        assert_eq!(exposed_name(&["read"]), "read");
        assert_eq!(exposed_name(&["mcp", "git", "log"]), "mcp__git__log");
    }

    #[test]
    fn changed_names_stay_apart() {
        let long = "x".repeat(80);
        assert_ne!(exposed_name(&[&long, "a"]), exposed_name(&[&long, "b"]));
        assert_ne!(exposed_name(&["a.b"]), exposed_name(&["a b"]));
    }

    proptest! {
        /// TE07: every exposed name is one that all vendors accept.
        #[test]
        fn te07_every_name_is_accepted_by_all_vendors(parts in prop::collection::vec(".{0,40}", 1..4)) {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let name = exposed_name(&parts);
            prop_assert!((1..=64).contains(&name.len()));
            prop_assert!(name.chars().all(is_allowed));
        }
    }
}
