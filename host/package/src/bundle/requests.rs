//! The requests of a package for rights.

use super::Bundle;
use crate::request::{self, Request};
use haft_manifest::Plugin;

impl Bundle {
    /// Returns all requests of the package, each once.
    pub fn requests(&self) -> Vec<Request> {
        let mut all: Vec<Request> = Vec::new();
        for plugin in self.manifest.plugins.iter().filter(|plugin| plugin.enabled) {
            all.extend(plugin_requests(Some(plugin.name.as_str()), plugin));
        }
        all.extend(self.manifest.tools.iter().flat_map(request::command_requests));
        let servers = self.manifest.mcp_servers.iter().filter(|server| server.enabled);
        all.extend(servers.flat_map(request::server_requests));
        all.extend(
            self.process_grants().flat_map(|(name, table)| request::table_requests(Some(name), table)),
        );
        all.extend(self.open_parts().map(|name| Request::AnyGrant(name.to_owned())));
        all.extend(self.skills.first().map(|_| Request::Instructions));
        let mut different: Vec<Request> = Vec::new();
        for request in all {
            if !different.contains(&request) {
                different.push(request);
            }
        }
        different
    }
}

/// Returns the requests of a component.
pub(super) fn plugin_requests(plugin_name: Option<&str>, plugin: &Plugin) -> Vec<Request> {
    let mut all = request::table_requests(plugin_name, &plugin.grant);
    let secret = |secret| Request::Secret(plugin_name.map(str::to_owned), secret);
    all.extend(plugin.secrets.iter().cloned().map(secret));
    all.extend(request::limits_requests(plugin_name, &plugin.limits));
    all
}
