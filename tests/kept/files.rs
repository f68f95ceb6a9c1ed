//! The private directories of a plugin: `/state` and `/cache`.

use std::fs;

use serde_json::{Value, json};

use super::{fails, home, kept, says};
use crate::cli::Home;
use crate::common::wait::until;

fn file(path: &str, size: u32) -> Value {
    json!({ "path": path, "size": size, "hold-ms": 0 })
}

/// The files of `/state` and `/cache` persist, are separate, and are inaccessible to other tools.
#[test]
fn files_of_its_own_stay_and_are_nobody_elses() {
    let home = home("grant = { state = \"1MiB\", cache = \"1MiB\" }");
    says(&home, "write-file", &file("/state/a", 10));
    says(&home, "write-file", &file("/cache/b", 20));
    assert_eq!(says(&home, "read-file", &json!({ "path": "/state/a" })), "10");
    assert_eq!(says(&home, "list-files", &json!({ "path": "/state" })), "[\"a\"]");
    assert_eq!(says(&home, "list-files", &json!({ "path": "/cache" })), "[\"b\"]");
    says(&home, "rename-file", &json!({ "old": "/state/a", "new": "/state/c" }));
    says(&home, "link-file", &json!({ "old": "/state/c", "new": "/state/d" }));
    for (old, new) in [("/state/c", "/cache/c"), ("/cache/b", "/state/b")] {
        fails(&home, "rename-file", &json!({ "old": old, "new": new }));
        fails(&home, "link-file", &json!({ "old": old, "new": new }));
    }
    let escaped = fails(&home, "read-file", &json!({ "path": "/state/../../entries.redb" }));
    assert!(!escaped.contains("hint: to allow it, add `read"), "{escaped}");
    // Neither a built-in tool nor a command can read the files.
    let own = kept(&home).canonicalize().unwrap();
    let refused = home.call("read", &json!({ "file_path": own.join("x") }));
    assert!(refused.code != 0 && refused.stderr.contains("` belongs to haft"), "{}", refused.stderr);
    let listed = home.call("bash", &json!({ "command": format!("ls -A {}", own.display()) }));
    assert!(!listed.stdout.contains(&first_name(&own)), "{}", listed.stdout);
}

fn first_name(directory: &std::path::Path) -> String {
    fs::read_dir(directory).unwrap().next().unwrap().unwrap().file_name().into_string().unwrap()
}

/// The quota counts all written files, in one call and over calls, until files are removed.
#[test]
fn the_quota_of_files_holds() {
    let home = home("grant = { state = \"1MiB\", cache = \"64KiB\" }");
    says(&home, "write-file", &file("/state/a", 600_000));
    let full = fails(&home, "write-file", &file("/state/b", 600_000));
    assert!(full.contains("hint: `state` allows 1 MiB; to allow more, set `state = \"2MiB\"`"), "{full}");
    says(&home, "remove-file", &json!({ "path": "/state/b" }));
    says(&home, "write-file", &file("/state/a", 1_000_000));
    fails(&home, "write-file", &file("/state/c", 100_000));
    says(&home, "write-file", &file("/cache/a", 50_000));
    let full = fails(&home, "write-file", &file("/cache/b", 50_000));
    assert!(full.contains("`cache = \"128KiB\"`"), "{full}");
    // The names of files count too.
    let many =
        (0..40).map(|number| home.call("keeper__write-file", &file(&format!("/cache/n{number}"), 0)).code);
    assert!(many.filter(|code| *code == 0).count() < 10);
}

/// A call that writes locks the directory until its end; a call that waits too long fails with the reason, and
/// reading needs no lock.
#[test]
fn two_that_write_at_once_follow_each_other_or_are_told() {
    let home = home("grant = { state = \"1MiB\" }\nlimits = { time = \"1h\" }");
    let start = |arguments: &Value| {
        home.command(&["call", "keeper__write-file", &arguments.to_string()]).spawn().unwrap()
    };
    // The call keeps the file open for longer than any test runs.
    let mut first = start(&json!({ "path": "/state/held", "size": 1, "hold-ms": 3_600_000 }));
    until("the file is there that a call holds", || files(&home).any(|file| file.ends_with("held")));
    assert_eq!(says(&home, "read-file", &json!({ "path": "/state/held" })), "1");
    let busy = fails(&home, "write-file", &file("/state/a", 1));
    assert!(busy.contains("usy"), "{busy}");
    let mut second = start(&file("/state/b", 1));
    until("the other call is at the lock", || has_open(second.id(), "files.lock"));
    assert!(first.try_wait().unwrap().is_none());
    assert!(!files(&home).any(|file| file.ends_with("b")));
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(second.wait().unwrap().success());
    assert!(files(&home).any(|file| file.ends_with("b")));
    says(&home, "write-file", &file("/state/a", 1));
}

/// The files in the plugin's state.
fn files(home: &Home) -> impl Iterator<Item = std::path::PathBuf> {
    let programs = fs::read_dir(kept(home)).into_iter().flatten().flatten();
    let folders = programs.flat_map(|one| fs::read_dir(one.path().join("keeper/files")));
    folders.flatten().flatten().map(|file| file.path())
}

/// True if a process has a file of this name open.
fn has_open(id: u32, name: &str) -> bool {
    let mut open = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
    open.any(|open| open.path().read_link().is_ok_and(|open| open.ends_with(name)))
}
