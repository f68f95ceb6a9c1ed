//! The Agent Client Protocol, version 1: conversations of one editor with agents, over two pipes. A [`Host`] opens
//! the conversations; this crate implements the protocol, and does not depend on program.toml. It accesses no file
//! for the editor or by it, and no message of an editor changes the rights of a tool.
//!
//! From the pipes inward: `output` is lines and their limits, `message` is JSON-RPC, `client` is the editor as seen by
//! an agent, `connection` handles each method, `session` is one conversation, and `updates` with `tool_call` is the
//! display in the editor.

mod approver;
mod client;
mod connection;
mod content;
mod host;
mod message;
mod output;
mod session;
mod sessions;
mod tool_call;
mod updates;

pub use self::connection::serve;
pub use self::host::{
    Command, Conversation, Failure, Host, Invoked, Model, Opening, StdioServer, Summary, Turn,
};
