//! The interface to the embedder: it opens conversations and provides them.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use haft_agent::Outcome;
use haft_agent::provider::{Message, Prompt};
use haft_core::event::Events;
use haft_core::tool::Approvals;

/// Opens conversations, and lists earlier ones.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// Returns whether conversations are saved, so that they can be listed and continued.
    fn keeps(&self) -> bool;

    /// Returns whether the conversation `id` is saved.
    fn knows(&self, id: &str) -> bool;

    /// Begins a conversation.
    async fn begin(&self, opening: Opening) -> Result<Box<dyn Conversation>, Failure>;

    /// Continues the conversation `id`.
    async fn resume(&self, id: &str, opening: Opening) -> Result<Box<dyn Conversation>, Failure>;

    /// Returns the saved conversations, newest first: all, or those of a folder.
    async fn list(&self, folder: Option<PathBuf>) -> Result<Vec<Summary>, Failure>;

    /// Removes a conversation.
    async fn remove(&self, id: &str) -> Result<(), Failure>;
}

/// The parameters of an editor for opening a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The id to keep, if the conversation was opened before and has no prompt.
    pub id: Option<String>,
    /// The absolute path of the folder that the editor works in.
    pub folder: PathBuf,
    /// The MCP servers that the user configured in the editor.
    pub servers: Vec<StdioServer>,
    /// The reasons why other servers are omitted, one a line.
    pub left_out: Vec<String>,
}

/// An MCP server that is a child process.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioServer {
    /// The name that the user gave it.
    pub name: String,
    /// The command line; at least one word.
    pub command: Vec<String>,
    /// The environment variables, which may hold secrets.
    pub env: Vec<(String, String)>,
}

impl std::fmt::Debug for StdioServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StdioServer").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An open conversation.
#[async_trait]
pub trait Conversation: Send {
    /// Returns the id: that of its saved session, once there was a prompt.
    fn id(&self) -> String;

    /// Returns the messages so far, oldest first.
    fn messages(&self) -> &[Message];

    /// Returns the base directory of relative paths of its tools.
    fn workspace(&self) -> Option<&Path>;

    /// Returns the available models and the current one; at most one without a choice.
    fn models(&self) -> (Vec<Model>, String);

    /// Uses another of [`models`](Self::models) from now on.
    async fn use_model(&mut self, id: &str) -> Result<(), Failure>;

    /// Returns the approximate tokens of the conversation, and the context window if known.
    fn window(&mut self) -> (usize, Option<u32>);

    /// Returns the commands, which a prompt of `/` and their name invokes.
    fn commands(&self) -> Vec<Command> {
        Vec::new()
    }

    /// Runs one of [`commands`](Self::commands).
    async fn command(&mut self, name: &str, _argument: &str, _turn: &Turn) -> Result<Invoked, Failure> {
        Err(Failure(format!("`/{name}` is not a command of this session")))
    }

    /// Returns the notices that the user has not yet seen: tools and servers that were omitted, with the reasons.
    fn notices(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Adds `prompt` and works until the agent is done or `turn` is cancelled.
    async fn prompt(&mut self, prompt: Prompt, turn: Turn) -> Result<Outcome, Failure>;

    /// Ends all processes of the conversation.
    async fn close(self: Box<Self>);
}

/// An available model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The argument of [`Conversation::use_model`].
    pub id: String,
    /// The name for the user.
    pub name: String,
}

/// A command of a session, typed as `/NAME ARGUMENT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The name after the `/`.
    pub name: String,
    /// The description of the argument; empty if the command takes none.
    pub argument: String,
    /// The description of the command, on one line.
    pub about: String,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invoked {
    /// A text for the user.
    Text(String),
    /// A prompt for the model, in place of the command.
    Prompt(Prompt),
}

/// The context of a prompt.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The sink for events.
    pub events: Events,
    /// Cancelled by the user.
    pub cancel: CancellationToken,
    /// Asks the user.
    pub approvals: Approvals,
    /// Whether the user has chosen plan mode: tools read, and neither write nor send anything.
    pub is_planning: bool,
}

/// A saved conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The id.
    pub id: String,
    /// The folder in which the session began.
    pub folder: PathBuf,
    /// The subject, on one line.
    pub title: Option<String>,
    /// The time of the last change, in RFC 3339.
    pub changed: String,
}

/// The reason of a failure, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);
