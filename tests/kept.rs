//! The state and the configuration of plugins: granted, bounded, and private to each plugin.

mod config;
mod files;
mod kill;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::{Answer, Home};
use crate::common::repository;

/// The guest that stores data.
fn keeper() -> PathBuf {
    repository().join("tests/guests/built/keeper.wasm")
}

/// A program with the guest; `rest` continues the plugin's table.
fn program(component: &Path, rest: &str) -> String {
    let component = component.display();
    format!(
        "[program]\nname = \"test\"\nversion = \"1.0.0\"\n\n[[plugins]]\nname = \"keeper\"\ncomponent = \"{component}\"\n{rest}\n"
    )
}

/// A home whose program has the guest.
fn home(rest: &str) -> Home {
    let home = Home::new();
    home.write("program.toml", &program(&keeper(), rest));
    home
}

/// The answer of a call that must succeed.
fn says(home: &Home, tool: &str, arguments: &Value) -> String {
    let Answer { stdout, stderr, code } = home.call(&format!("keeper__{tool}"), arguments);
    assert_eq!(code, 0, "{tool} {arguments}: {stdout}{stderr}");
    stdout.trim().to_owned()
}

/// The output of a call that must fail.
fn fails(home: &Home, tool: &str, arguments: &Value) -> String {
    let Answer { stdout, stderr, code } = home.call(&format!("keeper__{tool}"), arguments);
    assert_ne!(code, 0, "{tool} {arguments}: {stdout}{stderr}");
    stdout + &stderr
}

/// The directory with the stored data of plugins.
fn kept(home: &Home) -> PathBuf {
    home.work().parent().unwrap().join(".local/share/haft/state")
}

/// The content of all files below a directory, as one text.
fn all_text(directory: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            text += &all_text(&path);
        } else {
            text += &String::from_utf8_lossy(&fs::read(path).unwrap_or_default());
        }
    }
    text
}

/// A plugin finds its stored data in later processes and after an update of its component; a plugin of another
/// program with an identical name does not.
#[test]
fn what_is_kept_is_found_by_the_same_plugin_alone() {
    let home = home("grant = { state = \"1MiB\" }");
    assert_eq!(says(&home, "get", &json!({ "key": "a" })), "null");
    says(&home, "set", &json!({ "key": "a", "value": "one" }));
    assert_eq!(says(&home, "get", &json!({ "key": "a" })), "one");
    assert_eq!(says(&home, "add", &json!({ "key": "n", "delta": 5 })), "5");
    assert_eq!(says(&home, "keys", &json!({})), "[\"a\",\"n\"]");
    let added = haft::author::pack::Added { program: Some("# another version"), ..Default::default() };
    let updated = haft::author::pack::finish(&fs::read(keeper()).unwrap(), added).unwrap();
    fs::write(home.work().join("updated.wasm"), updated).unwrap();
    home.write("program.toml", &program(Path::new("updated.wasm"), "grant = { state = \"1MiB\" }"));
    assert_eq!(says(&home, "get", &json!({ "key": "a" })), "one");
    home.write("other.toml", &program(&keeper(), "grant = { state = \"1MiB\" }"));
    let other = home.haft(&["-p", "other.toml", "call", "keeper__get", "{\"key\": \"a\"}"]);
    assert_eq!((other.stdout.trim(), other.code), ("null", 0), "{}", other.stderr);
    says(&home, "delete", &json!({ "key": "a" }));
    assert_eq!(says(&home, "get", &json!({ "key": "a" })), "null");
}

/// A plugin without a grant runs; its access to state is refused, and the refusal names the line that would allow the
/// access.
#[test]
fn what_was_not_granted_is_refused_inside() {
    let home = home("");
    let refused = fails(&home, "get", &json!({ "key": "a" }));
    assert!(refused.contains("access denied"), "{refused}");
    assert!(refused.contains("add `state = \"10MiB\"` to `[plugins.grant]` of `keeper`"), "{refused}");
    let refused = fails(&home, "configured", &json!({ "key": "a" }));
    assert!(refused.contains("no configuration is granted"), "{refused}");
    assert!(refused.contains("add its keys to `[plugins.config]` of `keeper`"), "{refused}");
    for place in ["/state/a", "/cache/a"] {
        fails(&home, "write-file", &json!({ "path": place, "size": 1, "hold-ms": 0 }));
    }
    assert_eq!(says(&home, "log", &json!({ "message": "still here", "times": 1 })), "1");
    assert!(!kept(&home).join("x").exists() && fs::read_dir(kept(&home)).unwrap().next().is_none());
    let log = all_text(&home.state().join("journal"));
    assert!(
        log.contains("refused: storing keys and values") && log.contains("refused: reading a configuration"),
        "{log}"
    );
    // A right for one run.
    let allowed = home.haft(&["--allow", "keeper:state=1MiB", "call", "keeper__keys", "{}"]);
    assert_eq!((allowed.stdout.trim(), allowed.code), ("[]", 0), "{}", allowed.stderr);
}

/// The quota applies; a write beyond it changes nothing, and stored data stays.
#[test]
fn the_quota_of_keys_and_values_holds() {
    let home = home("grant = { state = \"64KiB\" }");
    says(&home, "fill", &json!({ "prefix": "a", "count": 6, "size": 10_000 }));
    let full = fails(&home, "fill", &json!({ "prefix": "b", "count": 2, "size": 3000 }));
    assert!(full.contains("quota exceeded") && full.contains("`state` allows 65536"), "{full}");
    assert!(
        full.contains("to allow more, set `state = \"128KiB\"` in `[plugins.grant]` of `keeper`"),
        "{full}"
    );
    assert_eq!(says(&home, "keys", &json!({})), json!(["a0", "a1", "a2", "a3", "a4", "a5"]).to_string());
    says(&home, "fill", &json!({ "prefix": "b", "count": 1, "size": 3000 }));
    let long = "k".repeat(2000);
    assert!(fails(&home, "set", &json!({ "key": long, "value": "" })).contains("at most 1024 bytes"));
    let journal = all_text(&home.state().join("journal"));
    assert!(journal.contains("refused: more keys and values than `state` allows"));
}

/// Concurrent processes write one after the other, so that no addition is lost.
#[test]
fn calls_at_once_follow_each_other() {
    let home = home("grant = { state = \"1MiB\" }");
    says(&home, "count", &json!({ "key": "n", "times": 1 }));
    let counting = || home.command(&["call", "keeper__count", "{\"key\": \"n\", \"times\": 25}"]);
    let children: Vec<_> =
        (0..4).map(|_| counting().stdout(std::process::Stdio::null()).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(says(&home, "get", &json!({ "key": "n" })), "101");
}

/// `haft list` shows the size of stored data, `haft remove` deletes it, and `haft cache clean --state` deletes data
/// of missing programs.
#[test]
fn what_is_kept_is_shown_and_goes_with_the_plugin() {
    let home = home("grant = { state = \"1MiB\", cache = \"1MiB\" }");
    home.haft(&["update", "keeper", "--yes"]);
    says(&home, "fill", &json!({ "prefix": "a", "count": 2, "size": 10_000 }));
    says(&home, "write-file", &json!({ "path": "/state/f", "size": 30_000, "hold-ms": 0 }));
    says(&home, "write-file", &json!({ "path": "/cache/f", "size": 50_000, "hold-ms": 0 }));
    let rows: Value = serde_json::from_str(&home.haft(&["--json", "list"]).stdout).unwrap();
    assert_eq!(rows[0]["granted"], json!(["state=1MiB", "cache=1MiB"]));
    assert_eq!(rows[0]["kept"], json!({ "entries": 20_132, "files": 34_096, "cache": 54_096 }));
    let page = home.haft(&["list", "--long"]).stdout;
    assert!(
        page.contains("keeps") && page.contains("of keys and values") && page.contains("of cache"),
        "{page}"
    );
    let removed = home.haft(&["remove", "keeper"]);
    assert!(removed.stderr.contains("removed `keeper`, and its stored data"), "{}", removed.stderr);
    home.write("program.toml", &program(&keeper(), "grant = { state = \"1MiB\" }"));
    assert_eq!(says(&home, "keys", &json!({})), "[]");
    assert_eq!(says(&home, "list-files", &json!({ "path": "/state" })), "[]");
    says(&home, "set", &json!({ "key": "a", "value": "one" }));
    fs::rename(home.work().join("program.toml"), home.work().join("moved.toml")).unwrap();
    let left = home.haft(&["cache", "clean"]);
    assert!(
        left.stderr.contains("left plugin state of") && left.stderr.contains("cache clean --state"),
        "{}",
        left.stderr
    );
    let gone = home.haft(&["cache", "clean", "--state"]);
    assert!(gone.stderr.contains("removed plugin state of"), "{}", gone.stderr);
    assert!(fs::read_dir(kept(&home)).unwrap().next().is_none());
}

/// haft shows at most 1000 log lines of a call, without secrets.
#[test]
fn log_lines_are_told_and_bounded() {
    let home = home("");
    let told = home.haft(&["call", "keeper__log", "{\"message\": \"a line\", \"times\": 3}"]);
    assert_eq!(told.stderr.matches("keeper: a line").count(), 3, "{}", told.stderr);
    let told = home.haft(&["call", "keeper__log", "{\"message\": \"a line\", \"times\": 5000}"]);
    assert_eq!(told.stderr.matches("keeper: a line").count(), 1000);
    let message = json!({ "message": format!("it is {}", crate::cli::SECRET), "times": 1 });
    let told = home.call("keeper__log", &message);
    assert!(
        told.stderr.contains("it is ***") && !told.stderr.contains(crate::cli::SECRET),
        "{}",
        told.stderr
    );
}
