//! Interprets a path that a model wrote. Works on text: opens nothing, and queries the file system only to decide
//! whether `..` may be dropped together with the name before it.

use std::path::{Component, Path, PathBuf};

/// The path that `written` stands for: absolute wherever that can be known.
///
/// A guest's C library looks for the granted directory that a path begins with and then refuses
/// to leave it, so `/granted/../other` fails even where `/other` is granted. `..` is therefore
/// removed here, but only together with what `is_directory` calls a real directory: behind a
/// symbolic link it means another place.
pub(crate) fn resolve(
    written: &str,
    workspace: Option<&Path>,
    home: Option<&Path>,
    is_directory: impl Fn(&Path) -> bool,
) -> PathBuf {
    let mut path = PathBuf::new();
    for component in absolute(written, workspace, home).components() {
        match component {
            Component::ParentDir if ends_in_name(&path) && is_directory(&path) => {
                path.pop();
            }
            Component::ParentDir if path.as_os_str() == "/" => {}
            other => path.push(other),
        }
    }
    // Components know no slash at the end. Of a directory it says nothing; a file with one is none.
    if names_directory(written) && ends_in_name(&path) && !is_directory(&path) {
        path.push("");
    }
    path
}

/// Whether a path means a directory by the way it ends.
fn names_directory(written: &str) -> bool {
    written.ends_with('/') || written.ends_with("/.")
}

/// Whether `path` is a directory and no link to one.
pub(crate) fn is_directory(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn absolute(written: &str, workspace: Option<&Path>, home: Option<&Path>) -> PathBuf {
    let below_home = written.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match (below_home, home, workspace) {
        (Some(rest), Some(home), _) => home.join(rest.trim_start_matches('/')),
        (_, _, Some(workspace)) => workspace.join(written),
        _ => PathBuf::from(written),
    }
}

fn ends_in_name(path: &Path) -> bool {
    matches!(path.components().next_back(), Some(Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(written: &str) -> String {
        let (workspace, home) = (Path::new("/home/me/work"), Path::new("/home/me"));
        let link = Path::new("/home/me/work/link");
        resolve(written, Some(workspace), Some(home), |path| path != link).display().to_string()
    }

    #[test]
    fn a_path_means_what_it_means_to_the_person() {
        assert_eq!(resolved("a/b.txt"), "/home/me/work/a/b.txt");
        assert_eq!(resolved("./a//b"), "/home/me/work/a/b");
        assert_eq!(resolved("/etc/hosts"), "/etc/hosts");
        assert_eq!(resolved("~"), "/home/me");
        assert_eq!(resolved("~/x"), "/home/me/x");
        assert_eq!(resolved("~other/x"), "/home/me/work/~other/x");
        assert_eq!(resolved(""), "/home/me/work");
    }

    #[test]
    fn parent_is_dropped_with_a_directory_and_kept_behind_a_link() {
        assert_eq!(resolved("../notes"), "/home/me/notes");
        assert_eq!(resolved("a/../../../../../etc/hosts"), "/etc/hosts");
        assert_eq!(resolved("link/../x"), "/home/me/work/link/../x");
        assert_eq!(resolved("link/../../x"), "/home/me/work/link/../../x");
        assert_eq!(resolved("/../.."), "/");
    }

    /// C15: `a.txt/` is no way to say `a.txt`.
    #[test]
    fn a_slash_at_the_end_is_kept_unless_a_directory_has_it() {
        let file = |path: &Path| path != Path::new("/work/a.txt");
        for (written, expected) in [
            ("a.txt", "/work/a.txt"),
            ("a.txt/", "/work/a.txt/"),
            ("a.txt//", "/work/a.txt/"),
            ("a.txt/.", "/work/a.txt/"),
            ("/work/a.txt/./", "/work/a.txt/"),
            ("folder/", "/work/folder"),
            ("folder/.", "/work/folder"),
            ("./", "/work"),
            ("/", "/"),
        ] {
            let path = resolve(written, Some(Path::new("/work")), None, file);
            assert_eq!(path.display().to_string(), expected, "{written}");
        }
    }

    #[test]
    fn without_a_workspace_a_relative_path_stays() {
        assert_eq!(resolve("../a", None, None, |_| true), Path::new("../a"));
        assert_eq!(resolve("~/a", None, None, |_| true), Path::new("~/a"));
    }
}
