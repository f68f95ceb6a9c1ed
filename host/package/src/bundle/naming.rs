//! What things are called: packages under another name than their own, components by whatever they say.

use super::{Bundle, BundleError};
use haft_manifest::Name;

impl Bundle {
    /// The package under the name that the user gave it. Where that is another than its own, it stands before the names of
    /// its plugins and servers, since another package may have the same: `words` of `mine` is `mine-words`. One that is
    /// called like its package is called like that again.
    ///
    /// # Errors
    /// Such a name is too long.
    pub fn called(mut self, name: &Name) -> Result<Self, BundleError> {
        if self.own_name == *name {
            return Ok(self);
        }
        self.program.name.value = name.clone();
        let plugins = self.manifest.plugins.iter_mut().map(|plugin| &mut plugin.name.value);
        let servers = self.manifest.mcp_servers.iter_mut().map(|server| &mut server.name.value);
        for own in plugins.chain(servers) {
            *own = if *own == self.own_name { name.clone() } else { joined(name, own)? };
        }
        Ok(self)
    }
}

fn joined(name: &Name, own: &Name) -> Result<Name, BundleError> {
    let joined = format!("{name}-{own}");
    joined.parse().map_err(|error| BundleError::Called { name: name.clone(), joined, error })
}

/// A text as a name: in lower case, with words joined by `-`.
pub(super) fn usable_name(text: &str) -> Result<Name, BundleError> {
    let spelt: String =
        text.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let spelt: String = spelt.trim_matches('-').chars().take(Name::MAX).collect();
    let spelt = spelt.trim_end_matches('-');
    spelt.parse().map_err(|error| BundleError::Name { text: haft_core::report::plain(text), error })
}
