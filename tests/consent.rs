//! Consent (`act:consent`) and secrets (`act:credentials`) for components of `act:tools@0.2`: granted by
//! program.toml, or approved by the user.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use crate::common::{cache, repository};
use crate::serve::peer::{Peer, text};

/// A folder with a program and the component; `rest` continues the component's table.
fn place(rest: &str) -> TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::copy(repository().join("tests/guests/built/consenting.wasm"), folder.path().join("asks.wasm"))
        .unwrap();
    let program = format!("[[plugins]]\nname = \"asks\"\ncomponent = \"asks.wasm\"\n{rest}");
    fs::write(folder.path().join("program.toml"), program).unwrap();
    folder
}

fn command(folder: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_haft"));
    command.args(arguments).current_dir(folder).env("HOME", folder).env("HAFT_TRUST", "1");
    command.env("XDG_CACHE_HOME", cache()).env_remove("HAFT_LOG");
    command
}

/// The answer of `haft call`.
fn call(folder: &Path, tool: &str, first: &str, second: &str) -> String {
    let arguments = json!({ "a": first, "b": second }).to_string();
    let output = command(folder, &["call", &format!("asks__{tool}"), &arguments]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn log(folder: &Path) -> String {
    String::from_utf8(command(folder, &["log", "--json"]).output().unwrap().stdout).unwrap()
}

/// haft refuses an action that the component did not declare, even if a person approves the call.
#[test]
fn what_is_not_declared_is_refused() {
    let folder = place("confirm = [\"*\"]\n[plugins.grant]\nwrite = [\".\"]\nhosts = [\"*\"]\n");
    // The component is compiled first, so that no call waits for the compilation.
    command(folder.path(), &["tools"]).output().unwrap();
    let mut peer = Peer::of(command(folder.path(), &["serve"]));
    peer.initialize("2025-11-25", &json!({ "elicitation": {} }));
    peer.notify("notifications/initialized", json!({}));
    let mut ask = |class: &str, key: &str| {
        let arguments = json!({ "a": class, "b": key });
        let id = peer.ask("tools/call", json!({ "name": "asks__leave", "arguments": arguments }));
        let question = peer.await_one(|message| message["method"] == "elicitation/create");
        let yes = json!({ "action": "accept", "content": { "approve": true } });
        peer.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": yes }));
        let answer = peer.answer(id)["result"].take();
        text(&answer).to_owned()
    };
    for (class, key, answer) in [
        ("db:read", "anything", "allowed"),
        ("db:drop", "test_one", "allowed"),
        ("db:drop", "production", "denied"),
        ("db:write", "anything", "denied"),
        ("", "", "denied"),
        ("db:*", "anything", "denied"),
        ("wasi:sockets", "example.com", "denied"),
    ] {
        assert_eq!(ask(class, key), answer, "{class} {key}");
    }
}

/// Without approval haft denies a component's own actions; the grant decides on the actions of WASI.
#[test]
fn leave_is_what_was_granted() {
    let none = place("");
    for (class, tool) in [
        ("db:read", "leave"),
        ("wasi:filesystem", "leave"),
        ("wasi:filesystem", "leave-to-read"),
        ("wasi:http", "leave"),
    ] {
        assert_eq!(call(none.path(), tool, class, "x"), "denied", "{class} {tool}");
    }
    let reads = place("[plugins.grant]\nread = [\".\"]\n");
    assert_eq!(call(reads.path(), "leave", "wasi:filesystem", "x"), "denied");
    assert_eq!(call(reads.path(), "leave-to-read", "wasi:filesystem", "x"), "allowed");
    let writes = place("[plugins.grant]\nwrite = [\".\"]\nhosts = [\"example.com\"]\n");
    for class in ["wasi:filesystem", "wasi:http"] {
        assert_eq!(call(writes.path(), "leave", class, "x"), "allowed", "{class}");
    }
    assert_eq!(call(writes.path(), "leave", "db:read", "x"), "denied");
    let log = log(writes.path());
    assert!(log.contains("refused: consent for `db:read x`: no person approved the call"), "{log}");
    assert!(log.contains("given: consent for `wasi:http x`: hosts are granted"), "{log}");
    // The component's own description of its question is not recorded.
    assert!(!log.contains("approve of everything"), "{log}");
}

/// Secrets are the values of `[plugins.config]`.
#[test]
fn secrets_are_those_of_the_configuration() {
    let none = place("");
    assert_eq!(call(none.path(), "secret", "token", ""), "denied");
    assert_eq!(call(none.path(), "secrets", "", ""), "");
    let some = place("[plugins.config]\ntoken = { file = \"token.txt\" }\n");
    fs::write(some.path().join("token.txt"), "abcdefgh").unwrap();
    // A text of eight bytes in CBOR.
    assert_eq!(call(some.path(), "secret", "token", ""), "std:opaque: std:value of 9 bytes");
    assert_eq!(call(some.path(), "secret", "other", ""), "not found");
    assert_eq!(call(some.path(), "secrets", "", ""), "token");
    let log = log(some.path());
    assert!(log.contains("given: the secret `token`") && !log.contains("abcdefgh"), "{log}");
}
