//! Finds the package's own files in its command lines, with any spelling of their paths.
//!
//! The first word is resolved against the package's folder if it contains a `/`. Any other word is the
//! package's own if it begins with `./` and the package has such a file or folder. All other words are resolved
//! in the workspace, where the process runs.

use std::path::Path;

use crate::bundle::{Bundle, BundleError};
use crate::listing::Listing;
use haft_manifest::{Manifest, Name, Transport};

/// Iterates over the command lines mutably, like [`Manifest::commands`].
pub(super) fn all_mut(manifest: &mut Manifest) -> impl Iterator<Item = &mut Vec<String>> {
    let commands = manifest.tools.iter_mut().map(|tool| &mut tool.command.value);
    let servers = manifest.mcp_servers.iter_mut().filter_map(|server| match &mut server.transport {
        Transport::Stdio { command, .. } => Some(&mut command.value),
        Transport::Http { .. } => None,
    });
    commands.chain(servers)
}

/// Iterates over the files and folders of the package that a command line names.
pub(super) fn named_files(line: &[String]) -> impl Iterator<Item = String> {
    let program = line.first().filter(|word| word.contains('/')).and_then(|word| normal(word));
    program.into_iter().chain(line.iter().skip(1).filter_map(|word| own(word)))
}

/// Returns the listed path of a word that begins with `./`; `None` for any other word, and for a path that
/// points outside the package.
pub(super) fn own(word: &str) -> Option<String> {
    word.starts_with("./").then(|| normal(word))?
}

/// Returns the path within the plugin that a word of a plugin's server may name: below `${PLUGIN_ROOT}`, or
/// relative to the server's working directory, which is the plugin's folder by default.
pub(super) fn of_plugin(word: &str) -> Option<String> {
    let (_, inside) = word.rsplit_once("${PLUGIN_ROOT}/").unwrap_or(("", word));
    normal(inside)
}

/// Iterates over the listed files that `path` names: a file, or the files below a folder.
pub(super) fn within<'listing>(
    listing: &'listing Listing,
    path: &str,
) -> impl Iterator<Item = &'listing str> {
    listing.paths().filter(move |file| Path::new(file).starts_with(path))
}

/// Normalizes a relative path; `None` if it is empty, absolute, or contains `..`.
fn normal(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let is_inside = !path.starts_with(['/', '~']) && !parts.is_empty() && !parts.contains(&"..");
    is_inside.then(|| parts.join("/"))
}

// Names of installed things: a package under another name than its own, a component under its declared name.

impl Bundle {
    /// Returns the package under the name that the user gave it. A name other than the declared one becomes a
    /// prefix of the plugins' and servers' names, because another package may have these names: `words` of
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

pub(super) fn usable_name(text: &str) -> Result<Name, BundleError> {
    Name::of_text(text).map_err(|error| BundleError::Name { text: haft_core::report::plain(text), error })
}

#[cfg(test)]
mod tests {
    use super::{named_files, normal, of_plugin};

    fn names(line: &str) -> Vec<String> {
        named_files(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// S02: all spellings of a path name one file.
    #[test]
    fn a_path_is_one_path_however_it_is_spelt() {
        for spelt in ["server/x", ".//server/x", "././server//x", "server/./x"] {
            assert_eq!(normal(spelt).as_deref(), Some("server/x"), "{spelt}");
        }
        for outside in ["", ".", "./", "/server/x", "~/x", "../x", "server/../../x"] {
            assert_eq!(normal(outside), None, "{outside}");
        }
    }

    /// S02: only words that start files of the package count as the package's own.
    #[test]
    fn words_of_the_workspace_are_none_of_the_package() {
        assert_eq!(names("node server/x ./lib --file=./y"), ["lib"]);
        assert_eq!(names("bin//run run ././a/ .//b"), ["bin/run", "a", "b"]);
        assert_eq!(names("./bin/run"), ["bin/run"]);
        assert_eq!(names("run ./../x /y"), [""; 0]);
    }

    /// S02: a plugin's server names files of the plugin by the placeholder of its folder, too.
    #[test]
    fn words_of_a_plugin_s_server_are_its_own() {
        for word in ["${PLUGIN_ROOT}/a.js", "a.js", "./a.js", "--file=${PLUGIN_ROOT}/a.js"] {
            assert_eq!(of_plugin(word).as_deref(), Some("a.js"), "{word}");
        }
        for word in ["${PLUGIN_ROOT}/", "${PLUGIN_ROOT}/../a.js", "/a.js", ""] {
            assert_eq!(of_plugin(word), None, "{word}");
        }
    }
}
