//! Directories of a grant that are created, replaced or moved after the grant.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use haft::backend::confine::Confiner;
use haft::grant::{Grant, Root};
use haft::native::bash::Bash;
use serde_json::json;

use super::cases::Off;
use super::host::confiner_by;
use crate::common::HANG;
use crate::workspace::{Workspace, confiner};

fn root(path: &Path) -> Root {
    Root::resolve(Path::new("/"), path).unwrap()
}

/// A workspace whose commands read the system and nothing else besides `more`.
fn workspace(more: impl Fn(Grant) -> Grant) -> Workspace {
    let mut workspace = Workspace::unheard();
    let own = root(&workspace.path(""));
    let system = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(Path::new);
    let none = Grant::none().with_write(own.clone()).with_workspace(own);
    let system = system.into_iter().filter(|path| path.exists());
    workspace.grant = more(system.fold(none, |grant, path| grant.with_read(root(path))));
    workspace
}

async fn bash(workspace: &Workspace, confiner: &Confiner, command: &str) -> String {
    let bash = Bash::new(confiner.clone(), HANG);
    workspace.call(&bash, json!({ "command": command })).await.unwrap().content
}

/// TE14: a command reads a directory or file of its grant that was replaced or created after the preparation of a
/// helper.
#[tokio::test]
async fn a_prepared_helper_reads_what_is_there_now() {
    let other = tempfile::tempdir().unwrap();
    let place = |name: &str| other.path().join(name);
    for folder in ["named", "new"] {
        fs::create_dir(place(folder)).unwrap();
    }
    fs::write(place("needed"), "before").unwrap();
    for (name, text) in [("new/file", "replaced"), ("newer", "saved")] {
        fs::write(place(name), text).unwrap();
    }
    let limited = workspace(|grant| {
        let grant = grant.with_read(root(&place("named"))).with_read(root(&place("later")));
        grant.with_needs([root(&place("needed"))])
    });
    let confiner = confiner();
    let prepared_before = async |change: &dyn Fn(), file: &str| {
        confiner.prepare(&limited.grant).await.unwrap();
        change();
        bash(&limited, &confiner, &format!("cat {}", place(file).display())).await
    };
    let replace = || {
        fs::rename(place("named"), place("old")).unwrap();
        fs::rename(place("new"), place("named")).unwrap();
    };
    assert_eq!(prepared_before(&replace, "named/file").await, "replaced");
    let save = || fs::rename(place("newer"), place("needed")).unwrap();
    assert_eq!(prepared_before(&save, "needed").await, "saved");
    let create = || {
        fs::create_dir(place("later")).unwrap();
        fs::write(place("later/file"), "created").unwrap();
    };
    assert_eq!(prepared_before(&create, "later/file").await, "created");
}

/// SB08: a link on the way to a granted directory moves no right, also without namespaces.
#[tokio::test]
async fn a_link_on_the_way_moves_no_grant() {
    for (off, write) in [(Off::NAMESPACES, true), (Off::NAMESPACES, false), (Off::NOTHING, false)] {
        let other = tempfile::tempdir().unwrap();
        let place = |name: &str| other.path().join(name);
        for folder in ["a/granted", "outside/granted"] {
            fs::create_dir_all(place(folder)).unwrap();
            fs::write(place(folder).join("file"), "content").unwrap();
        }
        let limited = workspace(|grant| {
            let granted = root(&place("a/granted"));
            if write { grant.with_write(granted) } else { grant.with_read(granted) }
        });
        let confiner = confiner_by(env!("CARGO_BIN_EXE_haft"), off);
        let path = place("a/granted/file");
        let used = format!("cat {0}; echo changed > {0}", path.display());
        let said = bash(&limited, &confiner, &used).await;
        assert!(said.starts_with("content"), "{off}: {said}");
        assert_eq!(fs::read_to_string(&path).unwrap() == "changed\n", write, "{off}: {said}");
        fs::rename(place("a"), place("old")).unwrap();
        symlink(place("outside"), place("a")).unwrap();
        let said = bash(&limited, &confiner, &used).await;
        assert!(said.contains("Permission denied") && !said.contains("content"), "{off}: {said}");
        assert_eq!(fs::read_to_string(place("outside/granted/file")).unwrap(), "content", "{off}");
    }
}
