//! How long a plugin call takes, against the floor: the same component called with bare wasmtime.
//!
//! Variants are timed in turn, round by round, so that a machine whose speed drifts changes all
//! of them alike. What counts is the last column, the ratio to the first row of the table.
//!
//! `cargo bench`, or `cargo bench -- NAME` for one table.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people who measure")]

#[path = "call/floor.rs"]
mod floor;
#[path = "call/table.rs"]
mod table;

use std::path::Path;
use std::sync::Arc;

use haft::call::ToolCall;
use haft::grant::{Grant, Root};
use haft::limit::Limits;
use haft::plugin::{Engine, EngineOptions, GrantPlace, Plugin, PluginTool, Source};
use haft::tool::{Session, Toolbox};
use serde_json::{Value, json};

use crate::table::Table;

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let tables: [(&str, fn()); 2] = [("dispatch", dispatch), ("read", read)];
    for (_, run) in tables.iter().filter(|(name, _)| name.contains(&wanted)) {
        run();
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn engine(ahead: usize, pooling: bool) -> Engine {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench");
    Engine::new(&EngineOptions { cache: Some(cache), ahead, pooling, ..EngineOptions::default() }).unwrap()
}

fn component(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../plugins/built/{name}.wasm"))
}

fn toolbox(runtime: &tokio::runtime::Runtime, engine: &Engine, name: &str, grant: &Grant) -> Toolbox {
    let source = Source::File(component(name));
    let plugin = runtime.block_on(Plugin::load(engine, name, source, &Limits::default())).unwrap();
    let mut toolbox = Toolbox::default();
    for def in plugin.tools() {
        let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Plugin);
        toolbox.insert(Arc::new(tool), grant.clone(), Limits::default(), name).unwrap();
    }
    toolbox
}

fn call(toolbox: &Toolbox, runtime: &tokio::runtime::Runtime, tool: &str, arguments: &Value) {
    let call = ToolCall { id: "1".into(), tool: tool.into(), arguments: arguments.clone() };
    let result = runtime.block_on(toolbox.dispatch(call, &Session::default()));
    assert!(!result.is_error, "{}", result.content);
}

/// One call of the smallest plugin.
fn dispatch() {
    let runtime = runtime();
    let arguments = json!({ "name": "you" });
    let floor = floor::Floor::new(&component("hello"));
    let variants = [
        ("dispatch, fresh", 0, false),
        ("dispatch, fresh, pool", 0, true),
        ("dispatch, made ahead", 4, false),
        ("dispatch, made ahead, pool", 4, true),
    ];
    let boxes = variants.map(|(name, ahead, pooling)| {
        (name, toolbox(&runtime, &engine(ahead, pooling), "hello", &Grant::none()))
    });
    let mut table = Table::new("one call of `hello`");
    table.row("floor: store, instantiate, call", || floor.call("hello", &arguments));
    for (name, toolbox) in &boxes {
        table.row(name, || call(toolbox, &runtime, "hello", &arguments));
    }
    table.print();
    let mut table = Table::new("one call of `hello`, 2 ms after the one before");
    table.pause = std::time::Duration::from_millis(2);
    table.row("floor: store, instantiate, call", || floor.call("hello", &arguments));
    for (name, toolbox) in &boxes {
        table.row(name, || call(toolbox, &runtime, "hello", &arguments));
    }
    table.print();
}

/// `read` of a small and a large file.
fn read() {
    let runtime = runtime();
    let directory = tempfile::tempdir().unwrap();
    let grant = Grant::none().with_read(Root::resolve(Path::new("/"), directory.path()).unwrap());
    let toolbox = toolbox(&runtime, &engine(4, false), "files", &grant);
    let files = [("1 KiB", 1 << 10), ("1 MiB", 1 << 20)].map(|(name, size)| {
        let path = directory.path().join(size.to_string());
        std::fs::write(&path, "0123456789abcde\n".repeat(size / 16)).unwrap();
        (name, json!({ "file_path": path }))
    });
    let mut table = Table::new("`read` of a file");
    for (name, arguments) in &files {
        table.row(name, || call(&toolbox, &runtime, "read", arguments));
    }
    table.print();
}
