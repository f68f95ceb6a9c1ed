//! MCP servers and their tools. A [`Server`] is started, or connected to, at its first use; its tools are
//! [`ServerTool`]s. No call is sent twice, even if the server ends, and no message of a server is trusted.
//!
//! # From program.toml to an answer
//! - **List:** the tools of a server are cached on disk ([`Server::remembered`]), so that listing them starts no
//!   server. A server without a cache entry younger than [`MAX_AGE`] is queried.
//! - **Start:** the first call starts the server, confined like every child. Both protocol eras are supported, the
//!   newer one is tried first, and the one that a server supports is remembered.
//! - **Call:** [`ServerTool`] sends the call, emits its progress as events, and converts the answer to text.
//! - **End:** when a server ends, its running calls fail with the end of its standard error. The next call starts
//!   the server again, after a pause if it ended before it served a call. [`Server::close`] ends a server in order;
//!   a dropped one is killed.

mod address;
mod answer;
mod bounded;
mod calls;
mod child;
mod config;
mod connection;
mod error;
mod handler;
mod http;
mod listing;
mod message;
pub mod oauth;
mod offers;
mod pending;
mod server;
mod skill;
mod stdio_transport;
mod tool;
mod tool_cache;

pub use self::config::{Config, Endpoint, Values};
pub use self::error::ServerError;
pub use self::listing::{Rejected, RemoteTool, ServerOffers, ToolList};
pub use self::oauth::Account;
pub use self::server::{Host, Server};
pub use self::skill::{server_skills, skill_pattern};
pub use self::tool::{ServerOffer, ServerTool, exposed, limits, owns};
pub use self::tool_cache::MAX_AGE;
