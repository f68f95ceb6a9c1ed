//! Names of installed things: a package under another name than its own, a component under its declared name.

use super::{Bundle, BundleError};
use haft_manifest::Name;

impl Bundle {
    /// Returns the package under the name that the user gave it. A name other than the declared one becomes a
    /// prefix of the plugins' and servers' names, since another package may use the same names: `words` of
    /// `mine` is `mine-words`. A plugin or server with the package's declared name gets the new name itself.
    ///
    /// # Errors
    /// A combined name is too long.
    pub fn called(mut self, name: &Name) -> Result<Self, BundleError> {
        if self.own_name == *name {
            return Ok(self);
        }
        self.program.name.value = name.clone();
        let plugins = self.manifest.plugins.iter_mut().map(|plugin| &mut plugin.name.value);
        let servers = self.manifest.mcp_servers.iter_mut().map(|server| &mut server.name.value);
        for part in plugins.chain(servers) {
            *part = if *part == self.own_name { name.clone() } else { joined(name, part)? };
        }
        Ok(self)
    }
}

fn joined(name: &Name, part: &Name) -> Result<Name, BundleError> {
    let joined = format!("{name}-{part}");
    joined.parse().map_err(|error| BundleError::Called { name: name.clone(), joined, error })
}

/// Converts a text to a name.
pub(super) fn usable_name(text: &str) -> Result<Name, BundleError> {
    Name::of_text(text).map_err(|error| BundleError::Name { text: haft_core::report::plain(text), error })
}
