//! What the command lines of a package name: its own files, however a path to them is spelt.
//!
//! The first word is looked for in the package's folder when it has a `/`. Of the others those that begin with `./`
//! are the package's own where it has such a file or folder; every other word means what it says in the workspace,
//! where the process runs.

use std::path::Path;

use crate::listing::Listing;
use haft_manifest::{Manifest, Transport};

/// The command lines of its command tools and of the MCP servers that it starts.
pub(super) fn all(manifest: &Manifest) -> impl Iterator<Item = &Vec<String>> {
    let commands = manifest.tools.iter().map(|tool| &tool.command.value);
    let servers = manifest.mcp_servers.iter().filter_map(|server| match &server.transport {
        Transport::Stdio { command, .. } => Some(&command.value),
        Transport::Http { .. } => None,
    });
    commands.chain(servers)
}

/// The same, to be changed.
pub(super) fn all_mut(manifest: &mut Manifest) -> impl Iterator<Item = &mut Vec<String>> {
    let commands = manifest.tools.iter_mut().map(|tool| &mut tool.command.value);
    let servers = manifest.mcp_servers.iter_mut().filter_map(|server| match &mut server.transport {
        Transport::Stdio { command, .. } => Some(&mut command.value),
        Transport::Http { .. } => None,
    });
    commands.chain(servers)
}

/// The paths of the package that a command line names: files and folders.
pub(super) fn named_files(line: &[String]) -> impl Iterator<Item = String> {
    let program = line.first().filter(|word| word.contains('/')).and_then(|word| normal(word));
    program.into_iter().chain(line.iter().skip(1).filter_map(|word| own(word)))
}

/// The path that a word which begins with `./` means, as a listing has it; `None` for any other word, and for one that
/// leads out.
pub(super) fn own(word: &str) -> Option<String> {
    word.starts_with("./").then(|| normal(word))?
}

/// The listed files that `path` is or holds.
pub(super) fn within<'listing>(
    listing: &'listing Listing,
    path: &str,
) -> impl Iterator<Item = &'listing str> {
    listing.paths().filter(move |file| Path::new(file).starts_with(path))
}

/// A relative path without what changes nothing; `None` where it is empty, absolute, or leads up.
fn normal(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let is_inside = !path.starts_with(['/', '~']) && !parts.is_empty() && !parts.contains(&"..");
    is_inside.then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::{named_files, normal};

    fn names(line: &str) -> Vec<String> {
        named_files(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// S02: one file has many spellings, and all of them are that file.
    #[test]
    fn s02_a_path_is_one_path_however_it_is_spelt() {
        for spelt in ["server/x", ".//server/x", "././server//x", "server/./x"] {
            assert_eq!(normal(spelt).as_deref(), Some("server/x"), "{spelt}");
        }
        for outside in ["", ".", "./", "/server/x", "~/x", "../x", "server/../../x"] {
            assert_eq!(normal(outside), None, "{outside}");
        }
    }

    /// S02: only what is run from the package is the package's.
    #[test]
    fn s02_words_of_the_workspace_are_none_of_the_package() {
        assert_eq!(names("node server/x ./lib --file=./y"), ["lib"]);
        assert_eq!(names("bin//run run ././a/ .//b"), ["bin/run", "a", "b"]);
        assert_eq!(names("./bin/run"), ["bin/run"]);
        assert_eq!(names("run ./../x /y"), [""; 0]);
    }
}
