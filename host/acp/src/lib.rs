//! The Agent Client Protocol, version 1: conversations with agents for one editor, on two pipes. A [`Host`] opens the
//! conversations; this crate knows the protocol, and nothing of program.toml. It reads and writes no file for the editor
//! or by it, and nothing that an editor sends changes what a tool may do.
//!
//! From the pipes inward: `input` and `output` hold lines and their bounds, `message` is JSON-RPC, `client` the editor
//! as an agent sees it, `connection` what is done for each method, `session` one conversation, and `updates` with
//! `tool_call` and `replay` what the editor is shown of it.

mod approver;
mod bounds;
mod client;
mod connection;
mod content;
mod host;
mod input;
mod markdown;
mod message;
mod modes;
mod output;
mod replay;
mod session;
mod sessions;
mod tool_call;
mod updates;

pub use self::connection::serve;
pub use self::host::{Command, Conversation, Failure, Host, Model, Opening, StdioServer, Summary, Turn};
