//! MCP in both directions: the tools of MCP servers as haft's tools (`client`), and haft's toolbox as an MCP server
//! (`server`). The only crate that uses rmcp; starts no process itself.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub mod client;
pub mod pins;
pub mod server;

/// Returns the time since 1970, which every process of every machine counts alike.
fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
