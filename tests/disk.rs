//! S17: the disk limit of one call of a plugin, for every way to write.

use std::fs;
use std::path::{Path, PathBuf};

use haft::limit::Limits;
use serde_json::json;

use crate::cli::Home;
use crate::common::{grant, hostile};
use crate::guest::Guest;

const LIMIT: u64 = 64 << 10;

const HINT: &str = "hint: one call may write at most 64 KiB; to allow more, add `disk = \"128KiB\"` to \
                    `[plugins.limits]` of `guest`";

async fn guest(directory: &Path) -> Guest {
    Guest::within(grant(&[], &[directory]), Limits { disk: LIMIT, ..Limits::default() }).await
}

/// The number of bytes and the number of entries in a directory.
fn held(directory: &Path) -> (u64, usize) {
    let entries: Vec<_> = fs::read_dir(directory).unwrap().map(Result::unwrap).collect();
    (entries.iter().map(|entry| entry.metadata().unwrap().len()).sum(), entries.len())
}

/// S17: haft refuses a call that writes more than the limit, and names the line that raises the limit.
#[tokio::test]
async fn a_call_writes_so_much_and_no_more() {
    let place = tempfile::tempdir().unwrap();
    let guest = guest(place.path()).await;
    let path = place.path().join("file");
    guest.says("write", json!({ "path": path, "text": "x".repeat(60_000) })).await;
    // The limit applies to each call separately.
    guest.says("write", json!({ "path": path, "text": "y".repeat(60_000) })).await;
    guest.says("append", json!({ "path": path, "text": "z".repeat(60_000) })).await;
    let refused = guest.fails("append", json!({ "path": path, "text": "z".repeat(70_000) })).await;
    // The Rust library's error for any failed write to a stream.
    assert_eq!(refused, format!("Tool error: I/O error (os error 29)\n{HINT}"));
    let (bytes, _) = held(place.path());
    assert!(bytes <= 120_000 + LIMIT, "{bytes}");
    let refused = guest.fails("write", json!({ "path": path, "text": "x".repeat(70_000) })).await;
    assert!(refused.ends_with(HINT), "{refused}");
    assert!(held(place.path()).0 <= LIMIT);
}

/// S17: a hole in a file counts toward the limit by its length.
#[tokio::test]
async fn holes_count() {
    let place = tempfile::tempdir().unwrap();
    let guest = guest(place.path()).await;
    let path = place.path().join("file");
    fs::write(&path, "").unwrap();
    let refused = guest.fails("resize", json!({ "path": path, "bytes": 1_u64 << 40 })).await;
    assert!(refused.ends_with(HINT), "{refused}");
    guest.says("resize", json!({ "path": path, "bytes": LIMIT })).await;
    // A truncation counts nothing.
    guest.says("resize", json!({ "path": path, "bytes": 10 })).await;
    assert_eq!(held(place.path()), (10, 1));
}

/// S17: new files, directories and links count toward the limit, so that their number is bounded.
#[tokio::test]
async fn names_count() {
    let place = tempfile::tempdir().unwrap();
    let guest = guest(place.path()).await;
    for number in 0..100 {
        fs::create_dir(place.path().join(number.to_string())).unwrap();
    }
    // `write_many` creates a file in each of the directories 0, 1, 2 …
    let prefix = format!("{}/", place.path().display());
    let refused = guest.fails("write_many", json!({ "path": prefix, "count": 100 })).await;
    assert!(refused.starts_with("Tool error: 84 of 100 were refused"), "{refused}");
    assert!(refused.ends_with(HINT), "{refused}");
    let tight = Limits { disk: 4095, ..Limits::default() };
    let guest = Guest::within(grant(&[], &[place.path()]), tight).await;
    let new = place.path().join("new");
    for (tool, arguments) in [
        ("create", json!({ "path": new })),
        ("create", json!({ "path": new, "directory": true })),
        ("symlink", json!({ "from": "x", "to": new })),
        ("hardlink", json!({ "from": place.path().join("0/file"), "to": new })),
    ] {
        let refused = guest.fails(tool, arguments).await;
        assert!(refused.contains("hint: one call may write at most 4095 bytes"), "{tool}: {refused}");
        assert!(fs::symlink_metadata(&new).is_err(), "{tool}");
    }
    // Renaming and removal write no data.
    guest.says("rename", json!({ "from": place.path().join("0/file"), "to": new })).await;
    guest.says("remove", json!({ "path": new })).await;
}

fn program(home: &Home, disk: &str) -> PathBuf {
    home.write(
        "program.toml",
        &format!(
            "[program]\nname = \"disk\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \".\"\n\
             [[plugins]]\nname = \"guest\"\ncomponent = \"{}\"\n[plugins.grant]\nwrite = [\".\"]\n\
             [plugins.limits]\n{disk}",
            hostile().display()
        ),
    );
    home.work().join("file")
}

/// S17: program.toml sets the limit, and the refusal names its line.
#[test]
fn program_toml_says_how_much() {
    let home = Home::new();
    let path = program(&home, "disk = \"20KiB\"\n");
    let text = json!({ "path": path, "text": "x".repeat(30_000) });
    let refused = home.call("guest__write", &text);
    assert!(refused.code == 1 && refused.stderr.contains("add `disk = \"40KiB\"`"), "{}", refused.stderr);
    program(&home, "disk = \"40KiB\"\n");
    assert_eq!(home.call("guest__write", &text).code, 0);
    // The default limit is 256 MiB.
    program(&home, "");
    let huge = json!({ "path": path, "bytes": 300_u64 << 20 });
    let refused = home.call("guest__resize", &huge);
    assert!(refused.stderr.contains("one call may write at most 256 MiB"), "{}", refused.stderr);
    assert!(fs::metadata(&path).unwrap().len() <= 30_000);
}
