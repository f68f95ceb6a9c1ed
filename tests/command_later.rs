//! Programs of WASI 0.3 (`wasi:cli/run@0.3`): the tests of WASI 0.2 programs (`command_plugin`) with streams and
//! asynchronous functions.

use std::fs;
use std::path::PathBuf;

use haft::grant::{Grant, Root};
use haft::limit::Limits;
use haft::plugin::{Contract, Plugin, Source};
use serde_json::{Value, json};

use crate::common::{engine, repository};
use crate::guest::{Guest, briefly};

fn component() -> PathBuf {
    repository().join("tests/guests/built/runner.wasm")
}

async fn guest(grant: Grant) -> Guest {
    Guest::of(&component(), grant, Limits::default()).await
}

fn words(words: &[&str]) -> Value {
    json!({ "args": words })
}

/// WA01: a program of WASI 0.3 is one tool, `run`.
#[tokio::test]
async fn a_later_program_is_one_tool() {
    let source = Source::File(component());
    let plugin = Plugin::load(engine(), "program", source, &Limits::default()).await.unwrap();
    assert_eq!(plugin.contract(), Contract::Command);
    let [tool] = plugin.tools() else { panic!("{:?}", plugin.tools()) };
    assert_eq!(tool.name, "run");
}

#[tokio::test]
async fn it_gets_its_words_and_its_input_and_answers_what_it_writes() {
    let guest = guest(Grant::none()).await;
    assert_eq!(guest.says("run", words(&["echo", "a b", "", "ж"])).await, "a b  ж");
    assert_eq!(guest.says("run", words(&["name"])).await, "guest");
    assert_eq!(guest.says("run", json!({ "args": ["count"], "stdin": "täxt" })).await, "5 bytes");
    // No data of the earlier call remains.
    assert_eq!(guest.says("run", words(&["count"])).await, "0 bytes");
    let both = guest.says("run", words(&["both"])).await;
    assert_eq!(both, "to standard output\nto standard error");
    assert_eq!(guest.says("run", words(&["env"])).await, "(exit code: 0)");
}

#[tokio::test]
async fn an_exit_code_is_told_and_is_an_error() {
    let guest = guest(Grant::none()).await;
    assert_eq!(guest.says("run", words(&["exit", "0"])).await, "(exit code: 0)");
    for (line, expected) in [
        // WASI 0.3 has exit codes.
        (&["exit", "3"][..], "(exit code: 3)"),
        (&["what"][..], "guest: what?\n(exit code: 1)"),
    ] {
        let failed = guest.call("run", words(line)).await;
        assert!(failed.is_error && failed.content.contains(expected), "{line:?}: {}", failed.content);
    }
    let trapped = guest.call("run", words(&["panic"])).await;
    assert!(trapped.is_error && trapped.content.contains("told to"), "{}", trapped.content);
}

/// WA02: a program reads only the files of its grant.
#[tokio::test]
async fn a_later_program_reads_what_was_granted() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::resolve(folder.path(), ".".as_ref()).unwrap();
    let path = root.real().join("a.txt");
    fs::write(&path, "inside").unwrap();
    let line = words(&["read", path.to_str().unwrap()]);
    let reader = guest(Grant::none().with_read(root)).await;
    assert_eq!(reader.says("run", line.clone()).await, "inside");
    assert!(guest(Grant::none()).await.call("run", line).await.is_error);
}

/// WA03: the limits end a program that computes or writes without end.
#[tokio::test]
async fn a_later_program_is_held_to_its_limits() {
    let guest = Guest::of(&component(), Grant::none(), briefly(1500)).await;
    let ended = guest.call("run", words(&["spin"])).await;
    assert!(ended.is_error && ended.content.contains("timed out"), "{}", ended.content);
    let flooded = Guest::of(&component(), Grant::none(), Limits::default()).await;
    let spam = flooded.call("run", words(&["spam", "30"])).await;
    assert!(spam.content.len() <= 2 << 20, "{} bytes", spam.content.len());
    assert_eq!(flooded.says("run", words(&["name"])).await, "guest");
}
