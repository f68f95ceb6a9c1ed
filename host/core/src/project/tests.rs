//! Tests of the boundaries of projects.

use super::*;

fn around(place: &Path, workspace: &str) -> (PathBuf, Vec<PathBuf>) {
    let project = Project::around(&Root::resolve(place, Path::new(workspace)).unwrap()).unwrap();
    let upwards = project.upwards().map(Path::to_owned).collect();
    (project.root().real().strip_prefix(place).unwrap().to_owned(), upwards)
}

#[test]
fn a_project_reaches_up_to_the_nearest_repository() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().canonicalize().unwrap();
    fs::create_dir_all(place.join("repo/.git")).unwrap();
    fs::create_dir_all(place.join("repo/a/b")).unwrap();
    fs::create_dir_all(place.join("repo/tree/src")).unwrap();
    fs::write(place.join("repo/tree/.git"), "gitdir: ../.git/worktrees/tree\n").unwrap();
    let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
    assert_eq!(around(&place, "repo/a/b"), ("repo".into(), paths(&["a/b", "a", ""])));
    assert_eq!(around(&place, "repo"), ("repo".into(), paths(&[""])));
    assert_eq!(around(&place, "repo/tree/src"), ("repo/tree".into(), paths(&["src", ""])));
    std::os::unix::fs::symlink("repo/a", place.join("link")).unwrap();
    assert_eq!(around(&place, "link"), ("repo".into(), paths(&["a", ""])));
}

/// A repository around another user's workspace is ignored.
#[test]
fn a_repository_of_somebody_else_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().canonicalize().unwrap();
    fs::create_dir_all(place.join(".git")).unwrap();
    fs::create_dir_all(place.join("work")).unwrap();
    if std::os::unix::fs::chown(place.join(".git"), Some(4711), None).is_err() {
        eprintln!("SKIPPED: only root gives files away");
        return;
    }
    assert!(!is_repository(&place, &place.join("work")));
    std::os::unix::fs::chown(place.join("work"), Some(4711), None).unwrap();
    assert!(is_repository(&place, &place.join("work")));
}
