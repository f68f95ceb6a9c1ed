//! Components that are programs (`wasi:cli/run`), and core modules of WASI preview 1, which haft converts to
//! components.

use std::fs;
use std::path::PathBuf;

use haft::grant::{Grant, Root};
use haft::limit::Limits;
use haft::plugin::{Contract, Plugin, Source};
use serde_json::{Value, json};

use crate::common::{engine, repository};
use crate::guest::{Guest, briefly};

fn component() -> PathBuf {
    repository().join("tests/guests/built/command.wasm")
}

async fn guest(grant: Grant) -> Guest {
    Guest::of(&component(), grant, Limits::default()).await
}

fn words(words: &[&str]) -> Value {
    json!({ "args": words })
}

/// WA01: a program is one tool, `run`.
#[tokio::test]
async fn a_program_is_one_tool() {
    let source = Source::File(component());
    let plugin = Plugin::load(engine(), "program", source, &Limits::default()).await.unwrap();
    assert_eq!(plugin.contract(), Contract::Command);
    let [tool] = plugin.tools() else { panic!("{:?}", plugin.tools()) };
    assert_eq!(tool.name, "run");
    assert!(tool.description.contains("arguments and standard input"), "{}", tool.description);
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
}

#[tokio::test]
async fn an_exit_code_is_told_and_is_an_error() {
    let guest = guest(Grant::none()).await;
    assert_eq!(guest.says("run", words(&["exit", "0"])).await, "(exit code: 0)");
    for (line, expected) in [
        // WASI 0.2 reports success or failure, but no exit code.
        (&["exit", "3"][..], "(exit code: 1)"),
        (&["read", "none"][..], "(exit code: 1)"),
        (&["what"][..], "guest: what?\n(exit code: 1)"),
    ] {
        let failed = guest.call("run", words(line)).await;
        assert!(failed.is_error && failed.content.contains(expected), "{line:?}: {}", failed.content);
    }
    let trapped = guest.call("run", words(&["panic"])).await;
    assert!(trapped.is_error && trapped.content.contains("told to"), "{}", trapped.content);
    // haft refuses arguments that are not a list of words before the program runs.
    let wrong = guest.call("run", json!({ "args": "echo" })).await;
    assert!(wrong.is_error && wrong.content.contains("args"), "{}", wrong.content);
}

/// A program has only the rights of its grant, as every plugin.
#[tokio::test]
async fn it_may_do_what_was_granted() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("a.txt"), "inside").unwrap();
    let root = Root::resolve(place.path(), ".".as_ref()).unwrap();
    let path = root.real().join("a.txt").to_str().unwrap().to_owned();
    let new = root.real().join("new.txt").to_str().unwrap().to_owned();
    let none = guest(Grant::none()).await;
    assert!(none.call("run", words(&["read", &path])).await.is_error);
    let reader = guest(Grant::none().with_read(root.clone())).await;
    assert_eq!(reader.says("run", words(&["read", &path])).await, "inside");
    assert!(
        reader.call("run", words(&["write", &new])).await.is_error && !root.real().join("new.txt").exists()
    );
    let writer = guest(Grant::none().with_write(root.clone()).with_env("HOME")).await;
    assert_eq!(writer.says("run", words(&["write", &new])).await, "(exit code: 0)");
    assert_eq!(fs::read_to_string(root.real().join("new.txt")).unwrap(), "written");
    assert_eq!(writer.says("run", words(&["env", "PATH"])).await, "unset");
    assert_ne!(writer.says("run", words(&["env", "HOME"])).await, "unset");
}

/// The limits on results and time apply to a program.
#[tokio::test]
async fn it_is_bounded() {
    let limits = Limits { result: 4 << 20, ..Limits::default() };
    let guest = Guest::of(&component(), Grant::none(), limits).await;
    assert_eq!(guest.says("run", words(&["spam", "3"])).await.len(), 3 << 20);
    let long = guest.call("run", words(&["spam", "64"])).await;
    assert!(long.is_error && long.content.contains("result limit of 4 MiB"), "{}", long.content);
    let spinning = Guest::of(&component(), Grant::none(), briefly(300)).await;
    let stopped = spinning.call("run", words(&["spin"])).await;
    assert!(stopped.is_error && stopped.content.contains("timed out"), "{}", stopped.content);
}

/// A module as `wasm32-wasip1`, wasi-sdk and `TinyGo` produce: it writes its first word and exits with a failure.
const PREVIEW1: &str = r#"(module
    (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (func (export "_start")
        (drop (call $args (i32.const 64) (i32.const 256)))
        (i32.store (i32.const 0) (i32.load (i32.const 68)))
        (i32.store (i32.const 4) (i32.const 5))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))
        (call $exit (i32.const 7))))"#;

#[tokio::test]
async fn a_core_module_of_preview_1_is_adapted() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("program.wasm");
    fs::write(&file, wat::parse_str(PREVIEW1).unwrap()).unwrap();
    let guest = Guest::of(&file, Grant::none(), Limits::default()).await;
    let ended = guest.call("run", words(&["hello"])).await;
    assert!(ended.is_error && ended.content.ends_with("hello\n(exit code: 1)"), "{}", ended.content);
}
