//! The trait [`Tool`], and the toolbox that calls its implementors. Plugins, command tools, MCP servers and native
//! tools are four sources of tools; every call of a tool goes through [`Toolbox`].

mod approval;
mod arguments;
mod bounds;
mod budget;
mod clip;
mod coercion;
mod difference;
mod entry;
mod foreign;
mod generic;
mod hook;
pub mod inline;
mod meter;
mod mistakes;
mod notes;
mod plan;
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
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::call::{PromptDef, ResourceList, ToolCall, ToolDef, ToolResult};
use crate::encoding::hex;
use crate::event::Events;
use crate::grant::Grant;
use crate::limit::Limits;

pub use self::approval::{Approvals, Approver, Decision, Question};
pub use self::approval::{ElicitationMode, ElicitationQuestion, Elicitor, Reply};
pub use self::arguments::{AnswerSchemaError, ArgumentsError, Schema, SchemaError};
pub use self::bounds::Bounds;
pub use self::budget::{bytes, tokens};
pub use self::clip::{Clipper, Keep, clip};
pub use self::difference::Difference;
pub use self::entry::Entry;
pub use self::foreign::foreign;
pub use self::hook::{Hook, Objection, Seen};
pub use self::meter::{AgentUse, Meter, Most, UsedUp};
pub use self::notes::{CallNotes, Notes};
pub use self::plan::PLAN_HINT;
pub use self::rules::{Rule, Rules, may_run};
pub use self::schema_mending::{MendedSchema, mend};
pub use self::session::{Caller, Client, Ledger, Lineage, Own, Session, Whole};
pub use self::subject::{Subject, SubjectArgument, in_a_line, in_full};
pub use self::toolbox::{DuplicateTool, Toolbox};
pub use self::widening::Widening;

/// The future of a tool's preparation.
pub type Preparation<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A callable tool.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the tool's definition for models. Constant over all calls.
    fn def(&self) -> &ToolDef;

    /// Runs the call. The arguments have been checked against [`ToolDef::parameters`].
    ///
    /// `Ok` includes failures of the program that the tool ran (a command that exits with 1). A drop of the future
    /// must stop everything that the call started.
    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError>;

    /// Returns the preparation that the tool needs once before its first call, such as compilation; `None` when it
    /// is ready. The caller awaits it before the time limit of a call begins. A call without it prepares the tool
    /// itself.
    fn preparation(&self) -> Option<Preparation<'_>> {
        None
    }

    /// Returns the reason why a call with these arguments is refused, whether approved or not. Checked before the
    /// user is asked.
    fn refusal(&self, _arguments: &Value) -> Option<ToolError> {
        None
    }

    /// Returns the subject of a call with these arguments, for rules and for the user who is asked. By default all
    /// of the arguments.
    fn subject(&self, arguments: &Value) -> Subject {
        Subject::arguments(arguments)
    }

    /// Returns the local path of the file that a call with these arguments changes, as the caller wrote it: the
    /// user who is asked sees the difference. By default none.
    fn file<'a>(&self, _arguments: &'a Value) -> Option<&'a str> {
        None
    }

    /// Returns whether the future of [`Tool::call`] may first be polled on the thread that read the call, so that a
    /// short call needs no switch of threads. A hint about the next call with the rights `grant`; `false`, the
    /// default, is always correct.
    ///
    /// `true` promises that the first poll only computes, for well under a millisecond, and reads local files: it
    /// starts no thread or process, and returns `Pending` instead of blocking. The future moves to the runtime at
    /// its first `Pending`; the promise does not include later polls.
    ///
    /// If the promise is broken, that caller's further calls and its cancellation are not read before the poll
    /// returns, and the opening or the start of something may fail, because the thread can be confined. Nothing
    /// becomes unsafe, and rights, approval, limits and journal are those of any other call.
    fn may_run_inline(&self, _grant: &Grant) -> bool {
        false
    }

    /// Returns whether a call with the rights `grant` might change or send anything, regardless of the tool's hints.
    /// The journal records such a call before it runs, any other within milliseconds. `true`, the default, is always
    /// correct.
    fn may_have_effects(&self, _grant: &Grant) -> bool {
        true
    }

    /// Returns whether the tool acts with rights that were fixed before the call, as a running server does: it
    /// ignores a narrower [`Context::grant`]. `false`, the default, promises that a call does nothing that its grant
    /// does not allow; plan mode withholds all other tools.
    fn has_fixed_rights(&self) -> bool {
        false
    }

    /// Returns whether the changes of a call are stored for an undo ([`Caller::keeper`]). With `false`, the
    /// default, an undo only lists the call.
    fn keeps_changes(&self) -> bool {
        false
    }

    /// Returns whether the tool is an agent; models make several concurrent calls of agents. By default `false`.
    fn is_agent(&self) -> bool {
        false
    }

    /// Returns the prompt or the resources that clients see, if this is not a tool: see [`Toolbox::insert_offer`].
    fn offer(&self) -> Option<Offer<'_>> {
        None
    }

    /// Returns the MCP server's own definition for MCP clients, if this is a tool of a server.
    fn served(&self) -> Option<Served<'_>> {
        None
    }

    /// Returns the SHA-256 of the component in hexadecimal, if the tool is one.
    fn digest(&self) -> Option<&str> {
        None
    }
}

/// An MCP server's definition of a tool or a prompt.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// The name of the server in program.toml.
    pub server: &'a str,
    /// The definition as the server sent it, without secrets, and with schemas that clients can use.
    pub definition: &'a Value,
}

impl Served<'_> {
    /// Returns the URI of the tool's user interface (MCP Apps).
    pub fn interface(&self) -> Option<&str> {
        let places = ["/_meta/ui/resourceUri", "/_meta/ui~1resourceUri"];
        places.iter().find_map(|place| self.definition.pointer(place)?.as_str())
    }

    /// Returns whether `who` may call the tool: `model`, or `app` for user interfaces of its server (MCP Apps, "visibility").
    pub fn is_visible_to(&self, who: &str) -> bool {
        let visibility = self.definition.pointer("/_meta/ui/visibility").and_then(Value::as_array);
        visibility.is_none_or(|all| all.iter().any(|one| one == who))
    }
}

/// A prompt or resources, as clients see them.
#[derive(Clone, Copy, Debug)]
pub enum Offer<'a> {
    /// A prompt, by the name that clients know. A call has its arguments.
    Prompt(&'a PromptDef),
    /// Resources, by the URIs that clients know. A call has one of these URIs, as `uri`.
    Resources {
        /// The common prefix of these URIs, which no other URI has.
        prefix: &'a str,
        /// The list of resources.
        list: &'a ResourceList,
    },
    /// A prompt of an MCP server. A call has a `method` of the protocol and its `params`, as the server knows them.
    ServerPrompt {
        /// The prompt.
        prompt: Served<'a>,
        /// Whether the server completes the prompt's arguments.
        completes: bool,
    },
    /// The resources of an MCP server. A call is like a call of one of the server's prompts.
    ServerResources {
        /// The name of the server in program.toml.
        server: &'a str,
        /// The resources and the templates, as the server listed them.
        listed: &'a ServerResources,
        /// The URIs of changed resources, among those that the server was asked to watch.
        updates: &'a broadcast::Sender<Arc<str>>,
    },
    /// A skill. A call has the URI of one of its files, as `uri`.
    Skill {
        /// `Skill` of the extension for skills, with the URI of each of its files.
        entry: &'a Value,
        /// `Resource` of the protocol, of its SKILL.md.
        resource: &'a Value,
    },
}

/// The resources of an MCP server as it listed them, without secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerResources {
    /// `Resource` of the protocol.
    #[serde(default)]
    pub resources: Vec<Value>,
    /// `ResourceTemplate` of the protocol.
    #[serde(default)]
    pub templates: Vec<Value>,
    /// Whether the server completes arguments.
    #[serde(default)]
    pub completes: bool,
    /// Whether the server reports changes of a resource.
    #[serde(default)]
    pub watches: bool,
}

/// The context of a call.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The rights of the call.
    pub grant: &'a Grant,
    /// The limits of the call. [`Toolbox::dispatch`] enforces the time; the tool the rest.
    pub limits: &'a Limits,
    /// The receiver of the call's events.
    pub events: &'a Events,
    /// Cancelled when the caller no longer waits for the answer.
    pub cancel: &'a CancellationToken,
    /// The notes of the call for the journal.
    pub notes: &'a Notes,
    /// Receives the complete text of a shortened answer.
    pub whole: &'a Whole,
    /// The client that makes the call.
    pub client: Client,
    /// The caller, for a tool that makes calls itself.
    pub caller: Caller<'a>,
    /// Whether the user was asked, and approved.
    pub approved: bool,
}

/// The reason why a tool gave no answer. Becomes an answer in [`Toolbox::dispatch`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The arguments make no sense to the tool; the model should call again with others.
    #[error("invalid arguments: {0}")]
    InvalidArguments(String),
    /// The tool failed; the text is the tool's.
    #[error("Tool error: {0}")]
    ExecutionFailed(String),
    /// haft stopped the tool or could not run it; the text is haft's. A tool cannot cause this variant by its
    /// answer.
    #[error("Tool error (haft): {0}")]
    Host(String),
}

// Names that every vendor accepts. Refuses nothing: for any name of a plugin's or server's tool the result is
// usable, and equal on every run.

/// The longest name that OpenAI, Anthropic and Gemini all accept.
const MAX_NAME: usize = 64;

/// Hexadecimal digits that distinguish shortened names: 32 bits, for the few dozen names of a program.
const HASH_DIGITS: usize = 8;

/// Joins `parts` with `__` into a name that matches `^[a-zA-Z0-9_-]{1,64}$`.
///
/// A changed name (too long, or with characters that vendors refuse) ends in a hash of the original, so that the
/// names of two tools differ.
pub fn exposed_name(parts: &[&str]) -> String {
    name_within(&parts.join("__"), MAX_NAME)
}

/// Maximum length of a name for MCP clients: they prepend their name for haft (`mcp__haft__`), for which 16
/// characters remain.
const MAX_CLIENT_NAME: usize = MAX_NAME - 16;

/// Returns the name of the tool or prompt `name` for MCP clients: a name of more than 48 characters is shortened as
/// by [`exposed_name`].
pub fn client_name(name: &str) -> String {
    name_within(name, MAX_CLIENT_NAME)
}

fn name_within(full: &str, most: usize) -> String {
    let clean = full.replace(|c: char| !is_allowed(c), "_");
    if clean == full && (1..=most).contains(&clean.len()) {
        return clean;
    }
    let kept: String = clean.chars().take(most - HASH_DIGITS - 1).collect();
    let hash: String = hex(&Sha256::digest(full)).chars().take(HASH_DIGITS).collect();
    format!("{kept}_{hash}")
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
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
        /// TE07: all vendors accept every exposed name.
        #[test]
        fn every_name_is_accepted_by_all_vendors(parts in prop::collection::vec(".{0,40}", 1..4)) {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let name = exposed_name(&parts);
            prop_assert!((1..=64).contains(&name.len()));
            prop_assert!(name.chars().all(is_allowed));
        }
    }
}
