//! Components with excessive sizes or depths, and exports that toolchains make for themselves.

use std::fmt::Write;

use haft::plugin::{LoadError, Plugin, Source, WIT_SECTION};

use super::made::{component, module, package, with_section};
use super::{load, names};

async fn loaded(bytes: Vec<u8>) -> Result<Plugin, LoadError> {
    load(Source::Embedded(bytes.leak())).await
}

async fn refusal(bytes: Vec<u8>) -> String {
    loaded(bytes).await.unwrap_err().to_string()
}

/// A component with one function `f` that takes `x`, whose type is defined by `types`.
fn taking(types: &str, x: &str) -> Vec<u8> {
    let wit = format!("package a:b; interface c {{ {types} f: func(x: {x}); }} world w {{ export c; }}");
    component(&wit, &module(r#"(func (export "a:b/c#f") (param i32))"#))
}

/// WA04: haft refuses a component with more than 256 functions.
#[tokio::test]
async fn two_thousand_functions_are_too_many() {
    let (mut wit, mut functions) = (String::from("package a:b; interface c {"), String::new());
    for index in 0..2000 {
        write!(wit, "g{index}: func();").unwrap();
        write!(functions, r#"(export "a:b/c#g{index}" (func 0))"#).unwrap();
    }
    let bytes = component(&(wit + "} world w { export c; }"), &format!("(module (func) {functions})"));
    assert_eq!(
        refusal(bytes).await,
        "lists a tool that cannot be used: 2000 functions; the limit is 256 tools"
    );
}

/// WA04: a function whose types are too many or too deep cannot be called, with the reason.
#[tokio::test]
async fn types_that_explode_are_named() {
    let mut types = String::from("record t0 { x: u8 }");
    for level in 1..5 {
        let fields: String = (0..10).map(|field| format!("x{field}: t{},", level - 1)).collect();
        write!(types, "record t{level} {{ {fields} }}").unwrap();
    }
    let plugin = loaded(taking(&types, "t4")).await.unwrap();
    assert_eq!(names(&plugin), [] as [&str; 0]);
    assert_eq!(plugin.uncallable()[0].reason, "takes more than 2000 types");
    // Within that limit, but with names that are too long for every vendor.
    let long = |count: usize| -> String {
        (0..count).map(|index| format!("{}{index:03}: string,", "x".repeat(300))).collect()
    };
    let plugin = loaded(taking(&format!("record t {{ {} }}", long(400)), "t")).await.unwrap();
    assert_eq!(plugin.uncallable()[0].reason, "takes a field whose name has more than 64 characters");
    let deep = format!("{}string{}", "list<".repeat(30), ">".repeat(30));
    let bytes = component(
        &format!("package a:b; interface c {{ f: func(x: {deep}); }} world w {{ export c; }}"),
        &module(r#"(func (export "a:b/c#f") (param i32 i32))"#),
    );
    assert_eq!(
        loaded(bytes).await.unwrap().uncallable()[0].reason,
        "takes types nested deeper than 14 levels"
    );
}

/// WA04: haft truncates a long description and ignores a section that is too large.
#[tokio::test]
async fn enormous_words_are_cut_or_left_out() {
    let wit = |lines: usize| {
        let docs =
            "/// x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x\n".repeat(lines);
        format!(
            "package a:b; interface c {{\n{docs}record r {{\n{docs}x: string }}\n{docs}f: func(r: r); }} world w {{ export c; }}"
        )
    };
    let bare = component(&wit(0), &module(r#"(func (export "a:b/c#f") (param i32 i32))"#));
    let plugin = loaded(with_section(&bare, WIT_SECTION, &package(&wit(2000)))).await.unwrap();
    let tool = &plugin.tools()[0];
    assert_eq!(tool.description.chars().count(), 16_000);
    assert_eq!(tool.parameters["properties"]["r"]["description"].as_str().unwrap().len(), 2000);
    let plugin = loaded(with_section(&bare, WIT_SECTION, &vec![b'x'; 3 << 20])).await.unwrap();
    assert_eq!(plugin.tools()[0].description, "The function `f` of `a:b/c`.");
}

/// WA04: the validator refuses invalid names.
#[tokio::test]
async fn invalid_names_are_refused() {
    for name in ["f\\00", "../f", "F f", "", "f__g", "\\e2\\80\\ae"] {
        let text = format!(
            r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f"))) (export "{name}" (func $f)))"#
        );
        let error = refusal(wat::parse_str(text).unwrap()).await;
        assert!(error.starts_with("not a WebAssembly component: "), "{name}: {error}");
    }
}

/// WA01: exports that a toolchain adds are not tools.
#[tokio::test]
async fn exports_of_toolchains_are_no_tools() {
    let text = |exports: &str| {
        format!(
            r#"(component
            (core module $m (memory (export "m") 1) (func (export "f")) (func (export "i") (param i32 i32 i32 i32))
                (func (export "r") (param i32 i32 i32 i32) (result i32) unreachable))
            (core instance $i (instantiate $m)) (func $f (canon lift (core func $i "f")))
            (func $init (param "shim" string) (param "script" string)
                (canon lift (core func $i "i") (memory (core memory $i "m")) (realloc (core func $i "r"))))
            (instance $j (export "init" (func $f)) (export "run" (func $f)))
            {exports})"#
        )
    };
    let all = text(
        r#"(export "exports" (instance $j)) (export "init" (func $init)) (export "wasi:cli/run@0.2.0" (instance $j))
        (export "greet" (func $f))"#,
    );
    let plugin = loaded(wat::parse_str(all).unwrap()).await.unwrap();
    assert_eq!(names(&plugin), ["greet"]);
    // A function that only has such a name is the author's own.
    let own = loaded(wat::parse_str(text(r#"(export "init" (func $f))"#)).unwrap()).await.unwrap();
    assert_eq!(names(&own), ["init"]);
    let none = text(r#"(export "wasi:clocks/wall-clock@0.2.0" (instance $j))"#);
    assert_eq!(
        refusal(wat::parse_str(none).unwrap()).await,
        "exports no function that can be a tool, only `wasi:clocks/wall-clock@0.2.0`"
    );
}

/// WA01: a function with unsupported streams or futures cannot be called, with the reason; other functions work.
#[tokio::test]
async fn streams_and_futures_are_named() {
    let text = r#"(component
        (core module $m (func (export "f") (param i32)) (func (export "g")))
        (core instance $i (instantiate $m)) (type $o (option u8))
        (type $s (stream $o)) (type $t (future))
        (func $f (param "x" $s) (canon lift (core func $i "f")))
        (func $h (param "x" $t) (canon lift (core func $i "f")))
        (func $g (canon lift (core func $i "g")))
        (export "f" (func $f)) (export "g" (func $g)) (export "h" (func $h)))"#;
    let plugin = loaded(wat::parse_str(text).unwrap()).await.unwrap();
    assert_eq!(names(&plugin), ["g"]);
    let reasons: Vec<_> = plugin.uncallable().iter().map(|one| one.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "takes a `stream` of other items than texts, characters, bytes, numbers and truth values",
            "takes a `future` of nothing"
        ]
    );
}
