//! MCP both ways: the tools of other servers as ours, and our toolbox as a server. The only home of
//! rmcp; starts no process itself.

pub mod client;
mod scan;
pub mod server;
