//! MCP servers in the configuration files of other clients: finds them, starts them by `haft wrap`, and restores
//! the files byte for byte.
//!
//! - **Find:** [`CLIENTS`] has one row for each client: the locations of its files, the tables in them that hold
//!   servers, and its syntax for variables.
//! - **Read:** `syntax` parses the text to one tree with positions; `server` reads an entry of any client from the
//!   tree.
//! - **Change:** [`Config::wrapped`] edits the text at exact positions, so that every other byte stays.
//! - **Keep:** [`Originals`] stores each original file on disk before the file is replaced.
//! - **Translate:** [`ProgramServer`] is a server in the form of program.toml.

mod client;
mod config;
mod edit;
mod kept;
mod program;
mod secret;
mod server;
mod syntax;
mod variable;

pub use self::client::{CLIENTS, Client, Machine, Place};
pub use self::config::{Config, ConfigError};
pub use self::kept::{Kept, KeptError, Originals, Record, Undone};
pub use self::program::ProgramServer;
pub use self::secret::{hidden, is_secret, origin};
pub use self::server::{Process, Server, Start};
