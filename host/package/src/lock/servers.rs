//! The pins of MCP servers in program.lock: the digests of their expected tools, for each configuration of a
//! server. The crate `haft-mcp` computes these digests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Lock;

/// The agreed tools of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerPin {
    /// The server's name.
    pub name: String,
    /// The digest of the server's configuration.
    pub configuration: String,
    /// The digests of each tool, by name.
    pub tools: BTreeMap<String, String>,
}

impl Lock {
    /// Returns the pin of the server called `name` as it is configured.
    pub fn server(&self, name: &str, configuration: &str) -> Option<&ServerPin> {
        self.servers.iter().find(|pin| pin.name == name && pin.configuration == configuration)
    }

    /// Sets the pin of a server, instead of those of its other configurations, and removes those of servers
    /// that `is_known` does not know.
    pub fn put_server(&mut self, pin: ServerPin, is_known: impl Fn(&str) -> bool) {
        self.servers.retain(|own| own.name != pin.name && is_known(&own.name));
        self.servers.push(pin);
        self.servers.sort_by(|one, other| one.name.cmp(&other.name));
    }
}
