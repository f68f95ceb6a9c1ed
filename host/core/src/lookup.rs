//! Finds programs on `PATH`. Does not run a program to find out whether it exists: `--version` has side effects, no
//! time limit and no agreed meaning.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::grant::{Grant, Reach, Root};

/// The search path of POSIX systems if `PATH` is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns the executable file of a bare `name`. A name with a `/` is a path and is never found.
pub fn find_on_path(name: &str) -> Option<PathBuf> {
    find(name, &search_path())
}

/// Returns the search path.
pub fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into())
}

/// Finds the programs that haft itself runs unconfined (`ssh`, `docker`, `git`, credential helpers). Directories
/// that tools may write are not searched, so that a tool cannot plant such a program.
#[derive(Clone, Debug, Default)]
pub struct HostPrograms {
    writable: Vec<Root>,
}

impl HostPrograms {
    /// Excludes the directories that `grant` allows to write. With `mode = "rwx"`, which allows everything, none is
    /// excluded.
    pub fn of(grant: &Grant) -> Self {
        match grant.writable() {
            Reach::Anywhere => Self::default(),
            Reach::Roots(roots) => Self { writable: roots.clone() },
        }
    }

    /// Returns the executable file of a bare `name`.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        let is_own = |file: &PathBuf| is_executable(file) && !self.may_be_written(file);
        candidates(name, &search_path()).find(is_own)
    }

    /// Returns the error message for a `name` that was not found.
    pub fn missing(name: &str) -> String {
        format!("`{name}` was not found in PATH; directories that tools may write are not searched")
    }

    /// Returns the search path for programs that such a program starts itself.
    pub fn path(&self) -> OsString {
        let path = search_path();
        let directories = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
        std::env::join_paths(directories.filter(|directory| !self.may_be_written(directory)))
            .unwrap_or_default()
    }

    /// Returns whether a tool may replace this file.
    fn may_be_written(&self, path: &Path) -> bool {
        let Ok(found) = Root::resolve(Path::new("/"), path) else { return true };
        let places = found.links().into_iter().chain([found.real().to_owned()]);
        places.into_iter().any(|place| self.writable.iter().any(|root| place.starts_with(root.real())))
    }
}

fn find(name: &str, path: &OsStr) -> Option<PathBuf> {
    candidates(name, path).find(|file| is_executable(file))
}

/// Returns the candidates. Relative directories of `path` are skipped: they would be resolved in the workspace,
/// where tools can write programs.
fn candidates(name: &str, path: &OsStr) -> impl Iterator<Item = PathBuf> {
    let is_name = !name.is_empty() && !name.contains('/');
    let directories: Vec<PathBuf> = std::env::split_paths(path).filter(|_| is_name).collect();
    directories.into_iter().filter(|directory| directory.is_absolute()).map({
        let name = name.to_owned();
        move |directory| directory.join(&name)
    })
}

/// Returns whether this user may execute `file`.
pub fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// PR06: finds an executable file on `PATH`, and runs nothing.
    #[test]
    fn finds_the_first_executable_of_that_name() {
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

    /// X9: directories that tools may write, directly or through a link, contain no program for haft to run.
    #[test]
    fn a_program_that_a_tool_may_have_written_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        for place in ["work", "own"] {
            fs::create_dir(folder.join(place)).unwrap();
            fs::write(folder.join(place).join("tool"), "").unwrap();
            fs::set_permissions(folder.join(place).join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink(folder.join("work/tool"), folder.join("own/link")).unwrap();
        std::os::unix::fs::symlink(folder.join("own"), folder.join("work/way")).unwrap();
        let work = Root::resolve(&folder, Path::new("work")).unwrap();
        let programs = HostPrograms::of(&Grant::none().with_write(work));
        for (path, is_none) in [
            ("work/tool", true),
            ("own/link", true),
            ("work/way/tool", true),
            ("work/new", true),
            ("own/tool", false),
        ] {
            assert_eq!(programs.may_be_written(&folder.join(path)), is_none, "{path}");
        }
        assert!(programs.find("sh").is_some());
    }

    /// PR05: a path is not a bare name.
    #[test]
    fn a_path_is_not_looked_up() {
        assert!(find_on_path("sh").is_some());
        assert_eq!(find_on_path("/bin/sh"), None);
        assert_eq!(find_on_path("../bin/sh"), None);
    }
}
