//! What an embedder gives: the opening of conversations, and the conversations.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use haft_agent::Outcome;
use haft_agent::provider::{Message, Prompt};
use haft_core::event::Events;
use haft_core::tool::Approvals;

/// Opens conversations, and knows those of earlier times.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// Whether conversations are kept, so that they can be listed and gone on with.
    fn keeps(&self) -> bool;

    /// Whether the conversation `id` is kept.
    fn knows(&self, id: &str) -> bool;

    /// Begins a conversation.
    async fn begin(&self, opening: Opening) -> Result<Box<dyn Conversation>, Failure>;

    /// Goes on with the conversation `id`.
    async fn resume(&self, id: &str, opening: Opening) -> Result<Box<dyn Conversation>, Failure>;

    /// The conversations that are kept, newest first: all of them, or those of a folder.
    async fn list(&self, folder: Option<PathBuf>) -> Result<Vec<Summary>, Failure>;

    /// Forgets a conversation.
    async fn remove(&self, id: &str) -> Result<(), Failure>;
}

/// What an editor says of a conversation when it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The id that it is to have, where it was opened before and nothing was said in it.
    pub id: Option<String>,
    /// The folder that the editor works in, absolute.
    pub folder: PathBuf,
    /// The MCP servers that the user has set up in the editor.
    pub servers: Vec<StdioServer>,
    /// Why others of them are left out, a line each.
    pub left_out: Vec<String>,
}

/// An MCP server that is a child process.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioServer {
    /// What the user calls it.
    pub name: String,
    /// The words that start it; at least one.
    pub command: Vec<String>,
    /// Its variables, which may hold secrets.
    pub env: Vec<(String, String)>,
}

impl std::fmt::Debug for StdioServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StdioServer").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A conversation that is open.
#[async_trait]
pub trait Conversation: Send {
    /// Its id: that of the session it is kept in, once something was said.
    fn id(&self) -> String;

    /// What was said so far, oldest first.
    fn messages(&self) -> &[Message];

    /// The folder where relative paths of its tools start.
    fn workspace(&self) -> Option<&Path>;

    /// The models that can be chosen, and the one that is; fewer than two where there is no choice.
    fn models(&self) -> (Vec<Model>, String);

    /// Asks another of [`models`](Self::models) from now on.
    async fn use_model(&mut self, id: &str) -> Result<(), Failure>;

    /// How many tokens the model is asked with by now, roughly, and how many it reads, where that is known.
    fn window(&mut self) -> (usize, Option<u32>);

    /// The commands that a prompt of a `/` and their name is.
    fn commands(&self) -> &'static [Command] {
        &[]
    }

    /// Does one of [`commands`](Self::commands). Returns the text that the user is shown.
    async fn command(&mut self, name: &str, _argument: &str) -> Result<String, Failure> {
        Err(Failure(format!("`/{name}` is no command of this session")))
    }

    /// What the user has to know of the session and was not told yet: tools and servers that were left out, and why.
    fn notices(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Says `prompt` and works until the agent is done or `turn` is cancelled.
    async fn prompt(&mut self, prompt: Prompt, turn: Turn) -> Result<Outcome, Failure>;

    /// Ends what it keeps running.
    async fn close(self: Box<Self>);
}

/// A model that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// What [`Conversation::use_model`] takes.
    pub id: String,
    /// For the user.
    pub name: String,
}

/// A command of a session, typed as `/NAME ARGUMENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// What is typed after the `/`.
    pub name: &'static str,
    /// The argument in words; empty where the command takes none.
    pub argument: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
}

/// What accompanies one prompt.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Where to tell what happens.
    pub events: Events,
    /// Cancelled when the user wants no more.
    pub cancel: CancellationToken,
    /// Asks the user.
    pub approvals: Approvals,
    /// Whether the user has chosen plan mode: tools read, and neither write nor send anything.
    pub is_planning: bool,
}

/// A conversation that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its id.
    pub id: String,
    /// The folder that it was begun in.
    pub folder: PathBuf,
    /// What it is about, in a line.
    pub title: Option<String>,
    /// When something was last said, as RFC 3339 has it.
    pub changed: String,
}

/// Why something cannot be done, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);
