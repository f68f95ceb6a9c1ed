//! Finds a program on `PATH`. It refuses to run one in order to learn whether it is there:
//! `--version` has side effects, no bound in time and no agreed meaning.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// What POSIX systems search where `PATH` is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The executable file that a bare `name` stands for. A name with a `/` is a path, not a name
/// to look up, and found nowhere.
pub fn find_on_path(name: &str) -> Option<PathBuf> {
    find(name, &search_path())
}

/// The directories that are searched, as `PATH` lists them.
pub fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into())
}

/// Relative directories of `path` are skipped: they would be resolved in the workspace, where tools can write
/// programs.
fn find(name: &str, path: &OsStr) -> Option<PathBuf> {
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let absolute = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    absolute.map(|directory| directory.join(name)).find(|file| is_executable(file))
}

/// Whether this user may run `file`.
pub fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// PR06: looked up as an executable file on `PATH`; nothing is run.
    #[test]
    fn pr06_finds_the_first_executable_of_that_name() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("first"), directory.path().join("second"));
        for place in [&first, &second] {
            fs::create_dir(place).unwrap();
            fs::write(place.join("tool"), "").unwrap();
        }
        fs::create_dir(first.join("folder")).unwrap();
        fs::set_permissions(second.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::join_paths(["bin".as_ref(), first.as_path(), second.as_path()]).unwrap();
        assert_eq!(find("tool", &path), Some(second.join("tool")));
        assert_eq!(find("folder", &path), None);
        assert_eq!(find("", &path), None);
    }

    /// PR05: a path is not a bare name.
    #[test]
    fn pr05_a_path_is_not_looked_up() {
        assert!(find_on_path("sh").is_some());
        assert_eq!(find_on_path("/bin/sh"), None);
        assert_eq!(find_on_path("../bin/sh"), None);
    }
}
