//! MCP servers and their tools. A [`Server`] is started, or connected to, when it is first needed,
//! and its tools are [`ServerTool`]s like any other. It refuses to run a call twice, whatever
//! becomes of the server, and to trust a word of what a server says of itself.
//!
//! # From program.toml to an answer
//! - **Look:** what tools a server has is remembered on disk ([`Server::remembered`]), so that
//!   listing them starts nothing. Who was never asked, or not since [`MAX_AGE`], is.
//! - **Start:** the first call starts the server, confined like every child; both eras of the
//!   protocol are spoken, the newer one first, and what a server turned out to speak is remembered.
//! - **Call:** [`ServerTool`] sends it, tells its progress, and turns the answer into text.
//! - **End:** a server that ends fails the calls that are under way, with its last words; the next
//!   call starts it again, after a pause if it ended before it did anything. [`Server::close`] ends
//!   it in order; one that is dropped is killed.

mod answer;
mod calls;
mod config;
mod connection;
mod elicitation;
mod error;
mod handler;
mod http;
mod listing;
mod server;
mod stdio_transport;
mod tool;
mod tool_cache;

pub use self::config::{Config, Endpoint, Values};
pub use self::elicitation::{ElicitationMode, ElicitationQuestion, Elicitor, Reply};
pub use self::error::ServerError;
pub use self::listing::{Rejected, RemoteTool, ToolList};
pub use self::server::{Host, Server};
pub use self::tool::{ServerTool, exposed, limits, owns};
pub use self::tool_cache::MAX_AGE;
