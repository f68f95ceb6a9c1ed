//! MCP servers and their tools. A [`Server`] is started, or connected to, when it is first needed; its tools are
//! [`ServerTool`]s. No call is sent twice, whatever becomes of the server, and nothing that a server sends is trusted.
//!
//! # From program.toml to an answer
//! - **List:** the tools of a server are cached on disk ([`Server::remembered`]), so that listing them starts nothing. A
//!   server without a cache entry younger than [`MAX_AGE`] is asked.
//! - **Start:** the first call starts the server, confined like every child; both eras of the
//!   protocol are spoken, the newer one first, and what a server turned out to speak is remembered.
//! - **Call:** [`ServerTool`] sends it, emits its progress as events, and turns the answer into text.
//! - **End:** when a server ends, its running calls fail with the last of its standard error; the next
//!   call starts it again, after a pause if it ended before it did anything. [`Server::close`] ends
//!   it in order; one that is dropped is killed.

mod address;
mod answer;
mod beginning;
mod bounded;
mod calls;
mod child;
mod config;
mod connection;
mod elicitation;
mod error;
mod handler;
mod http;
mod listing;
mod message;
pub mod oauth;
mod offer;
mod offers;
mod pending;
mod request;
mod server;
mod skill;
mod stdio_transport;
mod tool;
mod tool_cache;

pub use self::config::{Config, Endpoint, Values};
pub use self::error::ServerError;
pub use self::listing::{Rejected, RemoteTool, ToolList};
pub use self::oauth::Account;
pub use self::offer::ServerOffer;
pub use self::offers::ServerOffers;
pub use self::server::{Host, Server};
pub use self::skill::server_skills;
pub use self::tool::{ServerTool, exposed, limits, owns};
pub use self::tool_cache::{MAX_AGE, MAX_UNTOLD_AGE};
