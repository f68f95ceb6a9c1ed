//! MCP servers in the configuration files of other clients: found, put behind `haft wrap`, and put back byte for byte.
//!
//! - **Find:** [`CLIENTS`] has one row a client: the places of its files, the tables in them that hold servers, and how
//!   it writes variables.
//! - **Read:** `syntax` makes one tree of places in the text; `server` reads an entry of any client from it.
//! - **Change:** [`Config::wrapped`] edits the text at the exact places, so that every other byte stays.
//! - **Keep:** [`Originals`] has each file as it was, on the disk before the file is replaced.
//! - **Translate:** [`ProgramServer`] is a server as program.toml has it.

mod client;
mod config;
mod edit;
mod file;
mod kept;
mod program;
mod secret;
mod server;
mod syntax;
mod tree;
mod variable;

pub use self::client::{CLIENTS, Client, Machine, Place};
pub use self::config::{Config, ConfigError};
pub use self::kept::{Kept, KeptError, Originals, Record, Undone};
pub use self::program::ProgramServer;
pub use self::secret::{hidden, is_secret, origin};
pub use self::server::{Process, Server, Start};
