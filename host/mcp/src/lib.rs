//! MCP in both directions: the tools of MCP servers as haft's tools (`client`), and haft's toolbox as an MCP server
//! (`server`). The only crate that uses rmcp; starts no process itself.

pub mod client;
pub mod pins;
pub mod server;
