//! The interface to the user who answers the questions of MCP servers: questions and replies. Never answers for the
//! user.

use std::fmt::Debug;

use async_trait::async_trait;
use serde_json::Value;

/// Passes the questions of MCP servers to the user.
#[async_trait]
pub trait Elicitor: Debug + Send + Sync {
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
