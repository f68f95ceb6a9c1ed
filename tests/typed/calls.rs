//! Calls of typed functions.

use haft::grant::Grant;
use haft::limit::Limits;
use serde_json::{Value, json};

use super::made::{component, module};
use super::types;
use crate::cli::Home;
use crate::guest::Guest;

async fn guest() -> Guest {
    Guest::of(&types(), Grant::none(), Limits::default()).await
}

/// A value of every type.
fn everything() -> Value {
    json!({
        "bool": true, "s8": -128, "u8": 255, "s16": -32768, "u16": 65535,
        "s32": i32::MIN, "u32": u32::MAX, "s64": "-9223372036854775808", "u64": "18446744073709551615",
        "f32": 0.1, "f64": 1e300, "char": "ü", "text": "Täxt \u{1F980}",
        "bytes": { "base64": "AP8=" }, "numbers": [1, 2, 3],
        "point": { "x": 1.5, "y": -2.0, "label": "here" },
        "pair": ["left", 7], "shape": { "tag": "polygon", "val": [{ "x": 0.0, "y": 0.0 }] },
        "colour": "dark-blue", "options": ["ignore-case", "backwards"],
        "maybe": 7, "twice": { "some": null },
        "outcome": { "err": "no" }, "nothing": { "ok": null },
    })
}

/// WA01: a value of every type passes through a real component unchanged; `null` and a missing key both mean the
/// absent value.
#[tokio::test]
async fn every_type_goes_there_and_back() {
    let guest = guest().await;
    let result = guest.call("echo", json!({ "all": everything() })).await;
    assert_eq!(result.structured, Some(everything()), "{}", result.content);
    assert_eq!(result.content, everything().to_string());
    let mut less = everything();
    less["maybe"] = Value::Null;
    less["u64"] = json!(18_446_744_073_709_551_615_u64);
    less["s64"] = json!(-5);
    less.as_object_mut().unwrap().remove("twice");
    less["point"].as_object_mut().unwrap().remove("label");
    let mut expected = less.clone();
    expected.as_object_mut().unwrap().remove("maybe");
    expected["u64"] = json!("18446744073709551615");
    assert_eq!(guest.call("echo", json!({ "all": less })).await.structured, Some(expected));
}

/// WA01: a text answer is unchanged, bytes are a text or an attachment, and every other answer is JSON.
#[tokio::test]
async fn answers_are_text_or_json() {
    let guest = guest().await;
    for (tool, arguments, expected) in [
        ("greet", json!({ "name": "you" }), "good day, you"),
        ("double", json!({ "number": 9_007_199_254_740_993_u64 }), "18014398509481986"),
        ("double", json!({ "number": "9007199254740993" }), "18014398509481986"),
        ("find", json!({ "text": "aAa", "word": "a", "options": [] }), "[0,2]"),
        ("find", json!({ "text": "aAa", "word": "a", "options": [], "limit": null }), "[0,2]"),
        (
            "find",
            json!({ "text": "aAa", "word": "a", "options": ["ignore-case", "backwards"], "limit": 2 }),
            "[2,1]",
        ),
        ("reverse", json!({ "data": "abc" }), "cba"),
        ("reverse", json!({ "data": { "base64": "YWJj" } }), "cba"),
        ("lands__area", json!({ "country": "Iceland" }), "103000"),
        ("lands__area", json!({ "country": "Narnia" }), "null"),
        ("values__area", json!({ "shape": { "tag": "empty" } }), "0.0"),
        ("count", json!({ "text": "äö" }), "2"),
    ] {
        assert_eq!(guest.says(tool, arguments.clone()).await, expected, "{tool} {arguments}");
    }
    let binary = guest.call("reverse", json!({ "data": { "base64": "ChoKDUdOUIk=" } })).await;
    assert_eq!(binary.content, "[image/png, 8 bytes]");
    assert_eq!(
        binary.attachments[0].data,
        b"\x89PNG\r\n\x1a".iter().chain(b"\n").rev().rev().copied().collect::<Vec<u8>>()
    );
}

/// WA01: the error of a `result` is the tool's error, as text.
#[tokio::test]
async fn errors_are_the_tool_s() {
    let guest = guest().await;
    let polygon = |corners: usize| json!({ "shape": { "tag": "polygon", "val": vec![json!({ "x": 0, "y": 0 }); corners] } });
    for (tool, arguments, expected) in [
        ("find", json!({ "text": "", "word": "", "options": [] }), "Tool error: an empty word is everywhere"),
        ("values__area", polygon(4), "Tool error: unknown"),
        ("values__area", polygon(2), "Tool error: too-few-corners: 2"),
        ("values__area", json!({ "shape": { "tag": "named", "val": "blob" } }), "Tool error: no-shape: blob"),
    ] {
        assert_eq!(guest.fails(tool, arguments.clone()).await, expected, "{tool} {arguments}");
    }
}

/// WA01: arguments that do not conform to the schema do not reach the guest.
#[tokio::test]
async fn what_does_not_fit_is_refused() {
    let guest = guest().await;
    let find = |options: Value| json!({ "text": "a", "word": "a", "options": options });
    for (tool, arguments, expected) in [
        ("double", json!({ "number": "18446744073709551616" }), "/number"),
        ("double", json!({ "number": -1 }), "/number"),
        ("double", json!({}), "number"),
        ("double", json!({ "number": 1, "more": 2 }), "more"),
        ("find", find(json!(["backwards", "backwards"])), "/options"),
        ("find", find(json!(["sideways"])), "/options/0"),
        ("find", find(json!("backwards")), "/options"),
        ("reverse", json!({ "data": { "base64": "!" } }), "/data"),
    ] {
        let error = guest.fails(tool, arguments.clone()).await;
        assert!(error.starts_with("invalid arguments:") && error.contains(expected), "{arguments}: {error}");
    }
}

/// WA01: haft calls an `async` function as any other function.
#[tokio::test]
async fn asynchronous_functions_are_called() {
    let wit = "package test:slow; interface work { double: async func(number: u64) -> u64; } world slow { export work; }";
    let bytes = component(
        wit,
        &module(
            r#"(import "[export]test:slow/work" "[task-return]double" (func $return (param i64)))
            (func (export "[async-lift]test:slow/work#double") (param i64) (result i32)
                (call $return (i64.mul (local.get 0) (i64.const 2))) (i32.const 0))
            (func (export "[callback][async-lift]test:slow/work#double") (param i32 i32 i32) (result i32)
                (i32.const 0))"#,
        ),
    );
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("slow.wasm");
    std::fs::write(&path, bytes).unwrap();
    let guest = Guest::of(&path, Grant::none(), Limits::default()).await;
    assert_eq!(guest.says("double", json!({ "number": 21 })).await, "42");
}

/// WA01: `haft call` calls typed functions, and `haft tools` describes them.
#[test]
fn typed_functions_on_the_command_line() {
    let home = Home::new();
    std::fs::copy(types(), home.work().join("types.wasm")).unwrap();
    std::fs::copy(
        types().parent().unwrap().parent().unwrap().join("types/src/types.wit"),
        home.work().join("types.wit"),
    )
    .unwrap();
    home.write(
        "program.toml",
        "[program]\nname = \"test\"\nversion = \"1.0.0\"\n[[plugins]]\nname = \"types\"\ncomponent = \"types.wasm\"\n",
    );
    let call = |tool: &str, arguments: &str| home.haft(&["call", tool, arguments]);
    let answer = call("types__find", r#"{"text":"aAa","word":"a","options":["ignore-case"]}"#);
    assert_eq!((answer.stdout.trim(), answer.code), ("[0,1,2]", 0), "{}", answer.stderr);
    let answer = call("types__double", r#"{"number":9223372036854775807}"#);
    assert_eq!(answer.stdout.trim(), "18446744073709551614", "{}", answer.stderr);
    let answer = call("types__reverse", r#"{"data":"olleh"}"#);
    assert_eq!(answer.stdout.trim(), "hello", "{}", answer.stderr);
    let tools = home.haft(&["tools"]);
    assert!(tools.stdout.contains("Finds a word in a text."), "{}", tools.stdout);
    assert!(
        tools.stderr.contains("not callable: `look` of `types` takes a handle to a resource"),
        "{}",
        tools.stderr
    );
    assert_eq!(home.haft(&["check"]).code, 0);
}
