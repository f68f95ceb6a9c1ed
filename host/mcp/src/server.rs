//! The MCP server: offers a program's tools to clients, on standard input and output or over HTTP.
//!
//! - [`ToolSnapshot`] and [`Publisher`]: the served tools, and their replacement.
//! - [`stdio::serve`]: one client. [`http::Server`]: any number of clients.
//!
//! Both protocol eras are supported: sessions opened by `initialize` (2024-11-05 to 2025-11-25) and self-contained
//! requests (2026-07-28). All calls go through the toolbox.

mod board;
mod conversation;
mod elicitation;
mod handler;
pub mod http;
mod listing;
mod message;
mod names;
mod offers;
mod questions;
mod replicas;
mod snapshot;
pub mod stdio;
mod tasks;

pub use self::questions::Questions;
pub use self::replicas::of_user as replicas_of_user;
pub use self::snapshot::{Fallback, PATIENCE, Publisher, ServerInfo, ToolSnapshot, ToolSnapshots};
