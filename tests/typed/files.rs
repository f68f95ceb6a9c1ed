//! Paths of guests that do not know haft: absolute ones have their meaning outside of the guest, relative ones start
//! from the workspace, and neither counts as the other.

use std::fs;
use std::path::Path;

use haft::grant::{Grant, Root};
use haft::limit::Limits;
use serde_json::{Value, json};

use super::types;
use crate::guest::Guest;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for folder in ["work/docs", "other"] {
            fs::create_dir_all(directory.path().join(folder)).unwrap();
        }
        for (name, text) in [("work/a.txt", "a"), ("work/docs/b.txt", "b"), ("other/c.txt", "c")] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        Self { directory }
    }

    fn root(&self, name: &str) -> Root {
        Root::resolve(Path::new("/"), &self.directory.path().join(name)).unwrap()
    }

    /// A guest with these rights to read and to write, and the workspace `work`.
    async fn guest(&self, read: &[&str], write: &[&str]) -> Guest {
        let grant = Grant::none().with_workspace(self.root("work"));
        let grant = read.iter().fold(grant, |grant, name| grant.with_read(self.root(name)));
        let grant = write.iter().fold(grant, |grant, name| grant.with_write(self.root(name)));
        Guest::of(&types(), grant, Limits::default()).await
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }
}

fn at(path: impl Into<Value>) -> Value {
    json!({ "path": path.into() })
}

fn with(path: impl Into<Value>) -> Value {
    json!({ "path": path.into(), "text": "new" })
}

/// WA02: a relative path starts in the workspace, even if the guest's library changes it.
#[tokio::test]
async fn relative_paths_start_from_the_workspace() {
    let place = Place::new();
    let guest = place.guest(&["other"], &["work"]).await;
    for (path, text) in
        [("a.txt", "a"), ("./docs/b.txt", "b"), ("docs/../a.txt", "a"), ("../other/c.txt", "c")]
    {
        assert_eq!(guest.says("read", at(path)).await, text, "{path}");
    }
    assert_eq!(guest.says("read", at(place.path("other/c.txt"))).await, "c");
    assert_eq!(guest.says("read", at(place.path("work/docs/b.txt"))).await, "b");
    guest.says("write", with("new/deep/file.txt")).await;
    assert_eq!(fs::read_to_string(place.path("work/new/deep/file.txt")).unwrap(), "new");
    // This `tmp` is in the workspace, and not the directory `/tmp` of the machine.
    guest.says("write", with("tmp/file.txt")).await;
    assert_eq!(fs::read_to_string(place.path("work/tmp/file.txt")).unwrap(), "new");
}

/// WA02: an absolute path without a grant does not exist, and is never a path in the workspace.
#[tokio::test]
async fn absolute_paths_are_not_taken_for_relative_ones() {
    let place = Place::new();
    let guest = place.guest(&[], &["work"]).await;
    for path in ["/zzz.txt", "/zzz/deep.txt", "/a.txt", "/etc/zzz.txt", "//a.txt", "/../a.txt"] {
        let error = guest.fails("write", with(path)).await;
        assert!(
            error.contains("hint: haft proposes no line to allow it: that would grant `/"),
            "{path}: {error}"
        );
        let error = guest.fails("read", at(path)).await;
        assert!(error.contains("No such file or directory"), "{path}: {error}");
    }
    let entries = fs::read_dir(place.path("work")).unwrap().count();
    assert_eq!((entries, fs::read_to_string(place.path("work/a.txt")).unwrap().as_str()), (2, "a"));
}

/// WA02: with a grant for a part of the workspace, relative paths reach only that part.
#[tokio::test]
async fn relative_paths_into_a_part_of_the_workspace() {
    let place = Place::new();
    let guest = place.guest(&["work/docs"], &[]).await;
    assert_eq!(guest.says("read", at("docs/b.txt")).await, "b");
    let error = guest.fails("read", at("a.txt")).await;
    assert!(error.contains(&format!("read = [\"{}\"]", place.path("work"))), "{error}");
    let error = guest.fails("write", with("docs/b.txt")).await;
    assert!(error.contains(&format!("write = [\"{}\"]", place.path("work/docs"))), "{error}");
    assert_eq!(fs::read_to_string(place.path("work/docs/b.txt")).unwrap(), "b");
    let nothing = place.guest(&[], &[]).await;
    let error = nothing.fails("read", at("a.txt")).await;
    assert!(error.contains(&format!("read = [\"{}\"]", place.path("work"))), "{error}");
}
