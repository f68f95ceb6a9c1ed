//! Components as plugins: refusals at load time, and the properties of a call.

use std::collections::BTreeSet;

use haft::event::Event;
use haft::grant::Grant;
use haft::limit::Limits;
use haft::plugin::{Engine, EngineOptions, GrantPlace, LoadError, Plugin, PluginTool, Source};
use haft::tool::{Tool, Toolbox, exposed_name};
use serde_json::json;

use crate::common::wait::{eventually, eventually_some};
use crate::common::{cache, engine, grant, hostile, repository};
use crate::guest::{Guest, briefly};
use crate::tiny::{ANYTHING, Tiny};

async fn load(source: Source) -> Result<Plugin, LoadError> {
    Plugin::load(engine(), "guest", source, &briefly(3000)).await
}

async fn refusal(source: Source) -> String {
    load(source).await.unwrap_err().to_string()
}

fn embedded(bytes: Vec<u8>) -> Source {
    Source::Embedded(bytes.leak())
}

fn wat(text: &str) -> Source {
    embedded(wat::parse_str(text).unwrap())
}

/// WA04: haft refuses a file that is not a component or not a plugin, with one line.
#[tokio::test]
async fn what_is_no_plugin_is_refused() {
    let cut = Tiny::default().bytes();
    for (source, expected) in [
        (
            embedded(b"#!/bin/sh\n".to_vec()),
            "not a WebAssembly component: it does not begin with the bytes `\\0asm`",
        ),
        (embedded(Vec::new()), "not a WebAssembly component: the file is empty"),
        (
            embedded(cut[..100].to_vec()),
            "not a WebAssembly component: section range 11..320 is out of bounds (bound = 100)",
        ),
        (
            wat("(module)"),
            "a core WebAssembly module without a `main`, not a component; build it for `wasm32-wasip2` or wrap it with `wasm-tools component new`",
        ),
        (wat("(component)"), "exports no function that can be a tool"),
        (
            Tiny { export: "haft:plugin/tools@0.2.0".into(), ..Tiny::default() }.source(),
            "built for `haft:plugin@0.2.0`; this haft supports 0.1.0; rebuild it against that version",
        ),
        (
            wat("(component (instance $i) (export \"haft:plugin/tools@0.1.0\" (instance $i)))"),
            "cannot be linked: instance export `haft:plugin/tools@0.1.0` does not have export `list-tools`",
        ),
        (
            Tiny { import: Some("acme:weather/report@1.0.0".into()), ..Tiny::default() }.source(),
            "imports `f` of `acme:weather/report@1.0.0`, which this haft does not provide; compose it with a \
             component that exports the interface (`wac plug`), or build it without",
        ),
        (
            Tiny { import: Some("haft:plugin/host@0.2.0".into()), ..Tiny::default() }.source(),
            "imports `f` of `haft:plugin/host@0.2.0`, which this haft does not provide; rebuild it against `wit/` of this haft",
        ),
    ] {
        assert_eq!(refusal(source).await, expected);
    }
    assert_eq!(load(Tiny::default().source()).await.unwrap().tools()[0].name, "tiny");
}

/// WA05: a guest cannot import a way to `bash`, another tool or an MCP server; haft's own interface has only the five
/// functions of this test.
#[tokio::test]
async fn nothing_that_can_be_imported_runs_anything() {
    let wit = std::fs::read_to_string(repository().join("wit/plugin.wit")).unwrap();
    let host = wit.split("interface host {").nth(1).unwrap().split("\n}").next().unwrap();
    let offered: Vec<_> = host.lines().filter_map(|line| line.trim().split_once(": func(")).collect();
    let names: Vec<_> = offered.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["log", "progress", "cancelled", "workspace", "home"]);
    for interface in [
        "haft:plugin/tools@0.1.0",
        "haft:plugin/bash@0.1.0",
        "haft:plugin/mcp@0.1.0",
        "wasi:process/spawn@0.1.0",
        "wasi:cli/run@0.2.0",
    ] {
        let asking = Tiny { import: Some(interface.into()), ..Tiny::default() };
        let expected = format!("imports `f` of `{interface}`, which this haft does not provide; ");
        let refusal = refusal(asking.source()).await;
        assert!(refusal.starts_with(&expected), "{refusal}");
    }
}

/// WA04: the error for an unreadable component names its path.
#[tokio::test]
async fn a_missing_component_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("missing.wasm");
    let shown = path.display();
    assert_eq!(
        refusal(Source::File(path.clone())).await,
        format!("cannot read component `{shown}`: No such file or directory (os error 2)")
    );
    std::fs::create_dir(&path).unwrap();
    assert_eq!(
        refusal(Source::File(path.clone())).await,
        format!("cannot read component `{shown}`: expected a file")
    );
    std::fs::remove_dir(&path).unwrap();
    make_fifo(&path);
    assert_eq!(
        refusal(Source::File(path.clone())).await,
        format!("cannot read component `{shown}`: expected a file")
    );
}

fn make_fifo(path: &std::path::Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// WA04: haft refuses a plugin whose list of tools is invalid.
#[tokio::test]
async fn a_plugin_that_lists_nothing_usable_is_refused() {
    let tool = |name: &str, description: &str, parameters: &str, output: Option<&str>| {
        (name.to_owned(), description.to_owned(), parameters.to_owned(), output.map(str::to_owned))
    };
    let fine = tool("fine", "", ANYTHING, None);
    for (tools, expected) in [
        (vec![fine.clone(), fine.clone()], "`fine` is listed twice"),
        (
            vec![tool("two words", "", ANYTHING, None)],
            "`two words`: a name has 1 to 64 letters, digits, `_` and `-`",
        ),
        (vec![tool("", "", ANYTHING, None)], "``: a name has 1 to 64 letters, digits, `_` and `-`"),
        (
            vec![tool("long", &"x".repeat(16_001), ANYTHING, None)],
            "`long`: a description has at most 16000 characters",
        ),
        (
            vec![tool("text", "", "no JSON", None)],
            "`text`: its parameters are not JSON: expected ident at line 1 column 2",
        ),
        (
            vec![fine.clone(), tool("list", "", r#"{"type":"array"}"#, None)],
            "`list`: the parameters must be a JSON Schema with `\"type\": \"object\"`",
        ),
        (
            vec![tool("data", "", ANYTHING, Some(r#"{"type":"string"}"#))],
            "`data`: its output schema is not a JSON Schema with `\"type\": \"object\"`",
        ),
    ] {
        let source = Tiny { tools, ..Tiny::default() }.source();
        assert_eq!(refusal(source).await, format!("lists a tool that cannot be used: {expected}"));
    }
    let many = (0..257).map(|number| tool(&format!("t{number}"), "", ANYTHING, None)).collect();
    assert_eq!(
        refusal(Tiny { tools: many, ..Tiny::default() }.source()).await,
        "lists a tool that cannot be used: 257 tools; the limit is 256"
    );
}

/// WA04: the request for the list of tools has the limits of a call.
#[tokio::test]
async fn a_plugin_that_never_lists_is_refused() {
    for (before_listing, expected) in [
        ("(loop br 0)", "cannot list its tools: timed out after 3s: reached its time limit"),
        ("unreachable", "cannot list its tools: panicked"),
    ] {
        assert_eq!(refusal(Tiny { before_listing, ..Tiny::default() }.source()).await, expected);
    }
}

/// haft calls a tool under its exposed name; the plugin receives its own name.
#[tokio::test]
async fn a_tool_is_called_by_the_name_it_is_shown_under() {
    let plugin = load(Tiny::default().source()).await.unwrap();
    let def = &plugin.tools()[0];
    let exposed = exposed_name(&["weather", &def.name]);
    let tool = PluginTool::new(&plugin, def, exposed, GrantPlace::Plugin);
    assert_eq!(tool.def().name, "weather__tiny");
    let mut toolbox = Toolbox::default();
    toolbox.insert(std::sync::Arc::new(tool), Grant::none(), Limits::default(), "the test").unwrap();
    assert_eq!(crate::common::call(&toolbox, "weather__tiny", json!({})).await.content, "a tiny answer");
}

/// WA06: every call has its own instance, in sequence and in parallel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_gets_a_fresh_instance() {
    let guest = Guest::new(Grant::none()).await;
    for _ in 0..3 {
        assert_eq!(guest.says("count_calls", json!({})).await, "1");
    }
    let calls: Vec<_> = (0..8)
        .map(|number| {
            let guest = guest.clone();
            let text = format!("call {number}");
            tokio::spawn(async move {
                assert_eq!(guest.says("sleep", json!({ "ms": 20 })).await, "slept 20 ms");
                assert_eq!(guest.says("count_calls", json!({})).await, "1");
                assert_eq!(guest.says("echo", json!({ "text": text })).await, text);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
}

/// Calls a tool repeatedly until a prewarmed instance exists. haft creates one after a call, once the plugin has
/// been idle for a moment.
async fn made_ahead(plugin: &Plugin, toolbox: &Toolbox, tool: &str) {
    let mut calls = 0;
    eventually_some("an instance is made ahead", async || {
        if calls > 2 && plugin.waiting_instances() > 0 {
            return Some(());
        }
        calls += 1;
        assert!(!crate::common::call(toolbox, tool, json!({})).await.is_error);
        None
    })
    .await;
}

/// WA06: a prewarmed instance is fresh and has the rights of its call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_made_ahead_are_fresh_and_have_the_rights_of_their_call() {
    let options = EngineOptions { cache: Some(cache()), prewarm: true, ..EngineOptions::default() };
    let engine = Engine::new(&options);
    let plugin = Plugin::load(&engine, "guest", Source::File(hostile()), &Limits::default()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new");
    let (mut free, mut bound) = (Toolbox::default(), Toolbox::default());
    for def in plugin.tools() {
        for (toolbox, grant) in [(&mut free, grant(&[], &[directory.path()])), (&mut bound, Grant::none())] {
            let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Plugin);
            toolbox.insert(std::sync::Arc::new(tool), grant, Limits::default(), "the test").unwrap();
        }
    }
    for turn in 0..5 {
        made_ahead(&plugin, &free, "count_calls").await;
        assert_eq!(crate::common::call(&free, "count_calls", json!({})).await.content, "1");
        made_ahead(&plugin, &free, "count_calls").await;
        let write = json!({ "path": path, "text": "x" });
        assert!(crate::common::call(&bound, "write", write.clone()).await.is_error, "turn {turn}");
        assert!(!path.exists());
        made_ahead(&plugin, &bound, "count_calls").await;
        assert_eq!(crate::common::call(&free, "write", write).await.content, "done");
        std::fs::remove_file(&path).unwrap();
    }
}

/// S08: prewarmed instances leave room for instances of calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_made_ahead_leave_room() {
    /// More plugins than the pool has places.
    const PLUGINS: usize = 64;
    let options = EngineOptions { pooling: true, prewarm: true, ..EngineOptions::default() };
    let engine = Engine::new(&options);
    let mut plugins = Vec::new();
    for number in 0..=PLUGINS {
        let tiny = Tiny { answer: format!("answer {number}"), ..Tiny::default() };
        let plugin = Plugin::load(&engine, "tiny", tiny.source(), &Limits::default()).await.unwrap();
        let tool = PluginTool::new(&plugin, &plugin.tools()[0], "tiny".into(), GrantPlace::Plugin);
        let mut toolbox = Toolbox::default();
        toolbox.insert(std::sync::Arc::new(tool), Grant::none(), Limits::default(), "the test").unwrap();
        plugins.push((plugin, toolbox));
    }
    let (last, first) = plugins.split_last().unwrap();
    eventually_some("the room for them is used up", async || {
        for (number, (_, toolbox)) in first.iter().enumerate() {
            let answer = crate::common::call(toolbox, "tiny", json!({})).await.content;
            assert_eq!(answer, format!("answer {number}"));
        }
        let waiting: usize = first.iter().map(|(plugin, _)| plugin.waiting_instances()).sum();
        (waiting >= 50).then_some(())
    })
    .await;
    assert_eq!(crate::common::call(&last.1, "tiny", json!({})).await.content, format!("answer {PLUGINS}"));
}

/// WA06: a call never sees memory that an earlier call wrote, neither initial nor grown memory, with and without
/// pooling.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_always_empty() {
    let before_answering = "
        (if (i32.load (i32.const 60000)) (then unreachable))
        (i32.store (i32.const 60000) (i32.const 1))
        (drop (memory.grow (i32.const 32)))
        (if (i32.load (i32.const 100000)) (then unreachable))
        (i32.store (i32.const 100000) (i32.const 1))
        (if (i32.load (i32.const 2000000)) (then unreachable))
        (i32.store (i32.const 2000000) (i32.const 1))";
    for pooling in [false, true] {
        let engine = Engine::new(&EngineOptions { pooling, prewarm: true, ..EngineOptions::default() });
        let source = Tiny { before_answering, ..Tiny::default() }.source();
        let plugin = Plugin::load(&engine, "tiny", source, &Limits::default()).await.unwrap();
        let tool = PluginTool::new(&plugin, &plugin.tools()[0], "tiny".into(), GrantPlace::Plugin);
        let mut toolbox = Toolbox::default();
        toolbox.insert(std::sync::Arc::new(tool), Grant::none(), Limits::default(), "the test").unwrap();
        for turn in 0..300 {
            if turn % 50 == 0 {
                made_ahead(&plugin, &toolbox, "tiny").await;
            }
            assert_eq!(crate::common::call(&toolbox, "tiny", json!({})).await.content, "a tiny answer");
        }
    }
}

/// WA03, WA06: limits and isolation also apply to pooled instances.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_for_pooled_instances() {
    let options =
        EngineOptions { cache: Some(cache()), pooling: true, prewarm: true, ..EngineOptions::default() };
    let engine = Engine::new(&options);
    let plugin = Plugin::load(&engine, "guest", Source::File(hostile()), &Limits::default()).await.unwrap();
    let mut toolbox = Toolbox::default();
    for def in plugin.tools() {
        let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Plugin);
        let limits = if def.name == "spin" { briefly(1000) } else { Limits::default() };
        toolbox.insert(std::sync::Arc::new(tool), Grant::none(), limits, "the test").unwrap();
    }
    for (tool, arguments, expected) in [
        ("spin", json!({}), "`spin` timed out after 1s: reached its time limit"),
        ("allocate", json!({ "bytes": 4_u64 << 30 }), "`allocate` reached its memory limit of 64 MiB"),
        ("recurse", json!({}), "`recurse` trapped: out of bounds memory access"),
        ("unreachable", json!({}), "`unreachable` panicked"),
    ] {
        for _ in 0..3 {
            let end = crate::common::call(&toolbox, tool, arguments.clone()).await;
            assert!(
                end.is_error && end.content.starts_with(&format!("Tool error (haft): {expected}")),
                "{}",
                end.content
            );
            assert_eq!(crate::common::call(&toolbox, "count_calls", json!({})).await.content, "1");
        }
    }
}

/// WA06: calls of a plugin with equal rights and different limits never share an instance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_made_ahead_have_the_limits_of_their_call() {
    let options = EngineOptions { cache: Some(cache()), prewarm: true, ..EngineOptions::default() };
    let engine = Engine::new(&options);
    let plugin = Plugin::load(&engine, "guest", Source::File(hostile()), &Limits::default()).await.unwrap();
    let toolbox = |limits: Limits| {
        let mut toolbox = Toolbox::default();
        for def in plugin.tools() {
            let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Plugin);
            toolbox.insert(std::sync::Arc::new(tool), Grant::none(), limits, "the test").unwrap();
        }
        toolbox
    };
    let (small, large) =
        (toolbox(Limits { memory: 4 << 20, ..Limits::default() }), toolbox(Limits::default()));
    let fill = json!({ "bytes": 8 << 20 });
    for _ in 0..5 {
        made_ahead(&plugin, &small, "count_calls").await;
        assert_eq!(crate::common::call(&large, "fill", fill.clone()).await.content, "filled 8388608 bytes");
        made_ahead(&plugin, &large, "count_calls").await;
        assert!(crate::common::call(&small, "fill", fill.clone()).await.is_error);
    }
}

#[tokio::test]
async fn binary_content_becomes_an_attachment() {
    let guest = Guest::new(Grant::none()).await;
    let result = guest.call("binary", json!({ "bytes": 300 })).await;
    assert_eq!(result.content, "some bytes\n[application/octet-stream, 300 bytes]");
    let [attachment] = &result.attachments[..] else { panic!("{:?}", result.attachments) };
    assert_eq!(attachment.media_type, "application/octet-stream");
    assert_eq!(attachment.data, (0..=u8::MAX).cycle().take(300).collect::<Vec<_>>());
}

#[tokio::test]
async fn data_comes_back_as_data() {
    let guest = Guest::new(Grant::none()).await;
    let result = guest.call("structured", json!({ "fits": true })).await;
    assert_eq!(result.content, "the answer is 42");
    assert_eq!(result.structured, Some(json!({ "answer": 42 })));
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_told_apart_from_failure() {
    let guest = Guest::new(Grant::none()).await;
    assert_eq!(guest.fails("echo", json!({})).await, "invalid arguments: `text` is required");
    // The argument conforms to the schema, but the tool cannot use it.
    let error = guest.fails("flood_pieces", json!({ "count": u64::MAX })).await;
    assert!(error.starts_with("invalid arguments: `count`: "), "{error}");
}

/// Progress arrives while the tool works.
#[tokio::test]
async fn progress_arrives_live() {
    let endless = Guest::within(Grant::none(), briefly(600_000)).await;
    tokio::select! {
        // The guest sends a message and then sleeps for an hour.
        end = endless.call("progress", json!({ "steps": 2, "ms": 3_600_000 })) => panic!("{end:?}"),
        () = eventually("the first step is heard", || !endless.received().is_empty()) => {}
    }
    let guest = Guest::new(Grant::none()).await;
    assert_eq!(guest.says("progress", json!({ "steps": 20, "ms": 1 })).await, "done");
    let received = guest.received();
    assert_eq!(received.len(), 20);
    for (step, event) in (1_u32..).zip(&received) {
        let Event::Progress { call, done, total, message } = event else { panic!("{event:?}") };
        assert_eq!((call.as_str(), *done, *total), ("call-1", f64::from(step), Some(20.0)));
        assert_eq!(message, &format!("step {step}"));
    }
}

/// A tool that declares itself read-only cannot write, even with a grant to write.
#[tokio::test]
async fn a_read_only_tool_cannot_write_where_it_may() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, "as it was").unwrap();
    let guest = Guest::new(grant(&[], &[directory.path()])).await;
    let refused = guest.fails("write_secretly", json!({ "path": path })).await;
    assert_eq!(
        refused,
        "Tool error: Operation not permitted (os error 63)\nhint: the tool declares that it is read-only; \
         haft enforces it"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "as it was");
    assert_eq!(guest.says("write", json!({ "path": path, "text": "new" })).await, "done");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
}

/// WA02: a guest sees only the granted environment variables.
#[tokio::test]
async fn only_granted_variables_are_seen() {
    let guest = Guest::new(Grant::none().with_env("PATH").with_env("HAFT_TEST_UNSET")).await;
    let path = std::env::var("PATH").unwrap();
    assert_eq!(guest.says("env", json!({})).await, format!("PATH={path}"));
    assert_eq!(guest.says("variable", json!({ "name": "PATH" })).await, path);
    assert_eq!(guest.says("args", json!({})).await, "");
    assert_eq!(guest.says("stdin", json!({})).await, "0 bytes: ");
}

/// Calls beyond the number of concurrent guests wait, and all of them complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_calls_than_guests_wait_their_turn() {
    let guest = Guest::new(Grant::none()).await;
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let guest = guest.clone();
            tokio::spawn(async move { guest.says("sleep", json!({ "ms": 50 })).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), "slept 50 ms");
    }
}

/// The built plugins list the tools of their documentation.
#[tokio::test]
async fn the_shipped_plugins_list_their_tools() {
    let mut names = BTreeSet::new();
    for name in ["files", "hello", "time", "wordcount"] {
        let path = repository().join(format!("plugins/built/{name}.wasm"));
        let plugin = load(Source::File(path)).await.unwrap();
        names.extend(plugin.tools().iter().map(|def| def.name.clone()));
    }
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["count", "edit", "hello", "read", "time", "write"]);
}

/// A tool of an embedding program.
struct Own(haft::call::ToolDef);

#[async_trait::async_trait]
impl Tool for Own {
    fn def(&self) -> &haft::call::ToolDef {
        &self.0
    }

    async fn call(
        &self,
        call: &haft::call::ToolCall,
        _: &haft::tool::Context<'_>,
    ) -> Result<haft::call::ToolResult, haft::tool::ToolError> {
        Ok(haft::call::ToolResult::success(format!("own: {}", call.arguments["text"])))
    }
}

/// RG05, WA01: a program's own tool and a component's tools share one interface of the toolbox.
#[tokio::test]
async fn own_tools_and_components_share_one_interface() {
    let mut toolbox = crate::common::toolbox(&hostile(), Grant::none(), Limits::default()).await;
    let parameters = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let def = haft::call::ToolDef { name: "own".into(), parameters, ..haft::call::ToolDef::default() };
    let own = std::sync::Arc::new(Own(def));
    toolbox.insert(own, Grant::none(), Limits::default(), "the test").unwrap();
    for (tool, expected) in [("echo", "hi"), ("own", "own: \"hi\"")] {
        let answer = crate::common::call(&toolbox, tool, json!({ "text": "hi" })).await;
        assert_eq!((answer.content.as_str(), answer.is_error), (expected, false));
    }
}

/// The journal entry of a call may be delayed only if the guest can neither write nor send. The grant and the tool's
/// declaration `read-only`, which haft enforces, decide this.
#[tokio::test]
async fn a_component_may_have_effects_where_it_may_write_or_send() {
    let plugin = load(Source::File(repository().join("plugins/built/files.wasm"))).await.unwrap();
    let tool = |name: &str| {
        let def = plugin.tools().iter().find(|def| def.name == name).unwrap();
        PluginTool::new(&plugin, def, name.into(), GrantPlace::Plugin)
    };
    let (read, write) = (tool("read"), tool("write"));
    let folder = tempfile::tempdir().unwrap();
    let (reads, writes) = (grant(&[folder.path()], &[]), grant(&[], &[folder.path()]));
    let sends = Grant::none().with_host("example.org".parse().unwrap());
    for (grant, of_reader, of_writer) in
        [(Grant::none(), false, false), (reads, false, false), (writes, false, true), (sends, true, true)]
    {
        assert_eq!(read.may_have_effects(&grant), of_reader, "{grant:?}");
        assert_eq!(write.may_have_effects(&grant), of_writer, "{grant:?}");
    }
}
