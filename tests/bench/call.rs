//! The duration of a plugin call compared to the floor: the same component called with bare wasmtime.
//!
//! The variants run in turn, round by round, so that a machine whose speed drifts changes all variants alike. The
//! result is the last column, the ratio to the first row of the table.
//!
//! `cargo bench`, or `cargo bench -- NAME` for one table.

#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people who measure"
)]

#[path = "call/floor.rs"]
mod floor;
#[path = "rounds.rs"]
mod rounds;
#[path = "call/table.rs"]
mod table;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::call::ToolCall;
use haft::grant::{Grant, Root};
use haft::journal::{self, Program};
use haft::limit::{KeptJournal, Limits};
use haft::plugin::{Engine, EngineOptions, GrantPlace, Plugin, PluginTool, Source};
use haft::secret::Redactor;
use haft::tool::{Session, Toolbox};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::table::Table;

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let tables: [(&str, fn()); 6] = [
        ("dispatch", dispatch),
        ("typed", typed),
        ("journal", journal),
        ("read", read),
        ("load", load),
        ("spinning", spinning),
    ];
    for (_, run) in tables.iter().filter(|(name, _)| name.contains(&filter)) {
        run();
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn engine(prewarm: bool, pooling: bool) -> Engine {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench");
    Engine::new(&EngineOptions { cache: Some(cache), prewarm, pooling, ..EngineOptions::default() })
}

fn component(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../plugins/built/{name}.wasm"))
}

fn toolbox(runtime: &tokio::runtime::Runtime, engine: &Engine, name: &str, grant: &Grant) -> Toolbox {
    toolbox_of(runtime, engine, Source::File(component(name)), grant)
}

fn toolbox_of(runtime: &tokio::runtime::Runtime, engine: &Engine, source: Source, grant: &Grant) -> Toolbox {
    let plugin = runtime.block_on(Plugin::load(engine, "guest", source, &Limits::default())).unwrap();
    let mut toolbox = Toolbox::default();
    for def in plugin.tools() {
        let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Plugin);
        toolbox.insert(Arc::new(tool), grant.clone(), Limits::default(), "the benchmark").unwrap();
    }
    toolbox
}

fn call(toolbox: &Toolbox, runtime: &tokio::runtime::Runtime, tool: &str, arguments: &Value) {
    call_in(&Session::default(), toolbox, runtime, tool, arguments);
}

fn call_in(
    session: &Session,
    toolbox: &Toolbox,
    runtime: &tokio::runtime::Runtime,
    tool: &str,
    arguments: &Value,
) {
    let call = ToolCall { id: "1".into(), tool: tool.into(), arguments: arguments.clone() };
    let result = runtime.block_on(toolbox.dispatch(call, session));
    assert!(!result.is_error, "{}", result.content);
}

/// One call with the additions of a program: five secrets to redact, and the journal.
fn journal() {
    let (runtime, directory) = (runtime(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let toolbox = toolbox(&runtime, &engine(true, true), "hello", &Grant::none());
    let redactor = Redactor::default();
    redactor.add(&[1, 2, 3, 4, 5].map(|n| SecretString::from(format!("sk-{n}{}", "Ab9_x".repeat(18)))));
    let journal = journal::open(directory.path(), Program::default(), KeptJournal::default());
    let bare = Session::default();
    let redacted = Session { redactor: redactor.clone(), ..Session::default() };
    let journalled = Session { redactor, journal, ..Session::default() };
    let arguments = json!({ "name": "you" });
    let mut table = Table::new("one call of `hello`, left out and noted down");
    for (name, session) in [("nothing", &bare), ("secrets", &redacted), ("secrets and journal", &journalled)]
    {
        let (toolbox, runtime, arguments) = (&toolbox, &runtime, &arguments);
        table.row(name, move || call_in(session, toolbox, runtime, "hello", arguments));
    }
    table.print();
}

/// One call of the smallest plugin.
fn dispatch() {
    let runtime = runtime();
    let arguments = json!({ "name": "you" });
    let floor = floor::Floor::new(&component("hello"));
    let variants = [
        ("dispatch, fresh", false, false),
        ("dispatch, fresh, pool", false, true),
        ("dispatch, made ahead", true, false),
        ("dispatch, made ahead, pool", true, true),
    ];
    let boxes = variants.map(|(name, prewarm, pooling)| {
        (name, toolbox(&runtime, &engine(prewarm, pooling), "hello", &Grant::none()))
    });
    let mut table = Table::new("one call of `hello`");
    table.row("floor: store, instantiate, call", || floor.call("hello", &arguments));
    for (name, toolbox) in &boxes {
        table.row(name, || call(toolbox, &runtime, "hello", &arguments));
    }
    table.print();
    let mut table = Table::new("one call of `hello`, 2 ms after the one before");
    table.pause = Duration::from_millis(2);
    table.row("floor: store, instantiate, call", || floor.call("hello", &arguments));
    for (name, toolbox) in &boxes {
        table.row(name, || call(toolbox, &runtime, "hello", &arguments));
    }
    table.print();
}

/// One call of a typed function, with arguments in JSON.
fn typed() {
    let runtime = runtime();
    let types = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests/built/types.wasm");
    let floor = floor::TypedFloor::new(&types, "greet");
    let boxes = [("dispatch, fresh", false, false), ("dispatch, made ahead, pool", true, true)].map(
        |(name, prewarm, pooling)| {
            let source = Source::File(types.clone());
            (name, toolbox_of(&runtime, &engine(prewarm, pooling), source, &Grant::none()))
        },
    );
    let mut table = Table::new("one call of the typed function `greet`");
    table.row("floor: store, instantiate, call", || floor.call("you"));
    for (name, toolbox) in &boxes {
        table.row(name, || call(toolbox, &runtime, "greet", &json!({ "name": "you" })));
    }
    table.print();
}

/// `read` of a small and a large file.
fn read() {
    let runtime = runtime();
    let directory = tempfile::tempdir().unwrap();
    let grant = Grant::none().with_read(Root::resolve(Path::new("/"), directory.path()).unwrap());
    let toolbox = toolbox(&runtime, &engine(true, true), "files", &grant);
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

/// From a component's file to its list of tools, without and with the cache.
fn load() {
    let runtime = runtime();
    let source = Source::File(component("files"));
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let load = |cache: Option<std::path::PathBuf>| {
        let engine = Engine::new(&EngineOptions { cache, ..EngineOptions::default() });
        let plugin = runtime.block_on(Plugin::load(&engine, "files", source.clone(), &Limits::default()));
        assert_eq!(plugin.unwrap().tools().len(), 3);
    };
    let mut table = Table::new("from `files.wasm` to its list of tools, engine included");
    table.row("cold: compile, ask", || load(None));
    table.row("warm: from the cache", || load(Some(directory.path().to_owned())));
    table.print();
}

/// The duration of calls while other guests use every processor, and the time until those guests end.
fn spinning() {
    const SPINNING: usize = 8;
    const CALLS: usize = 200;
    let runtime = runtime();
    let engine = engine(true, true);
    let hostile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests/built/hostile.wasm");
    let spin = toolbox_of(&runtime, &engine, Source::File(hostile), &Grant::none());
    let hello = toolbox(&runtime, &engine, "hello", &Grant::none());
    let session = Session::default();
    let guests: Vec<_> = (0..SPINNING)
        .map(|_| {
            let (spin, session) = (spin.clone(), session.clone());
            let call = ToolCall { id: "1".into(), tool: "spin".into(), arguments: json!({}) };
            runtime.spawn(async move { spin.dispatch(call, &session).await })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let mut times: Vec<Duration> = (0..CALLS)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            let begun = Instant::now();
            call(&hello, &runtime, "hello", &json!({ "name": "you" }));
            begun.elapsed()
        })
        .collect();
    times.sort();
    let begun = Instant::now();
    session.cancel.cancel();
    for guest in guests {
        assert!(runtime.block_on(guest).unwrap().content.ends_with("was cancelled"));
    }
    println!(
        "\n`hello` while {SPINNING} guests spin: median {:?}, worst {:?} of {CALLS}",
        times[CALLS / 2],
        times[CALLS - 1]
    );
    println!("all {SPINNING} ended {:?} after the cancel", begun.elapsed());
}
