//! Start-up files: files in writable directories that programs of this machine run by themselves. A tool that could
//! change such a file could make the user's `git`, editor or shell run code outside the sandbox.

use haft_core::grant::{Grant, Reach, Root, may_be};

/// Files, and directories with a `/` at the end. A path of the other kind is not a start-up file. Excludes files
/// that run on request (`Makefile`, `package.json`, `.husky/`), because tools have to edit them.
const PLACES: &[&str] = &[
    // `git status` and the prompts of shells run `fsmonitor`, `pager`, filters and hooks. A file `.git` names the
    // directory with the configuration and the hooks.
    ".git",
    ".git/config",
    ".git/config.worktree",
    ".git/hooks/",
    ".gitconfig",
    ".config/git/config",
    // Tasks and paths of interpreters, which run when the folder is opened.
    ".vscode/",
    ".idea/",
    ".zed/",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".vimrc",
    // Run when a shell starts or enters the folder.
    ".envrc",
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".zshenv",
    ".zprofile",
    ".zshrc",
    ".zlogin",
    ".zlogout",
    ".config/fish/config.fish",
    // Servers that agents start.
    ".mcp.json",
];

/// Returns `grant` with write protection for the existing start-up files in its writable directories, and for a
/// directory that haft may not search, because start-up files may be in it. A path that the grant itself names for
/// writing, or a directory above such a path, is not protected.
pub(super) fn fixing(grant: Grant) -> Grant {
    let Reach::Roots(writable) = grant.writable().clone() else { return grant };
    let is_named = |directory: &Root, place: &Root| {
        writable.iter().any(|named| named != directory && directory.contains(named) && named.contains(place))
    };
    let places = writable.iter().flat_map(|directory| {
        let places = PLACES.iter().filter_map(|place| there_is(directory, place));
        places.filter(|place| !is_named(directory, place))
    });
    places.fold(grant, Grant::with_start_up)
}

/// Returns whether `root` is a start-up file and not a directory. Such a file is not preopened, but its directory
/// is.
pub(super) fn is_file(root: &Root) -> bool {
    PLACES.iter().any(|place| root.path().ends_with(place)) && root.path().is_file()
}

fn there_is(directory: &Root, place: &str) -> Option<Root> {
    let path = directory.path().join(place);
    let is_one = may_be(&path, |found| if place.ends_with('/') { found.is_dir() } else { found.is_file() });
    is_one.then(|| Root::protecting(directory.path(), &path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F1: files that run by themselves are fixed, unless the grant names them.
    #[test]
    fn what_starts_by_itself_is_kept_unless_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for path in [".git/hooks", ".vscode"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        std::fs::write(folder.path().join(".git/config"), "").unwrap();
        let root = |path: &str| Root::resolve(folder.path(), path.as_ref()).unwrap();
        let kept = |named: &[&str]| {
            let grant = Grant::none().with_write(root("."));
            let grant = fixing(named.iter().fold(grant, |grant, path| grant.with_write(root(path))));
            let places =
                grant.fixed().map(|place| place.real().strip_prefix(root(".").real()).unwrap().to_owned());
            places.map(|place| place.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(kept(&[]), [".git/config", ".git/hooks", ".vscode"]);
        assert_eq!(kept(&[".git/config"]), [".git/hooks", ".vscode"]);
        assert_eq!(kept(&[".git", ".vscode"]), [""; 0]);
        assert_eq!(kept(&["."]), kept(&[]));
        assert!(is_file(&root(".git/config")) && !is_file(&root(".vscode")) && !is_file(&root("x")));
    }
}
