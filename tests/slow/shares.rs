//! Plugins and clients that claim all resources: haft still serves the others.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::call::ToolCall;
use haft::grant::Grant;
use haft::limit::Limits;
use haft::plugin::{Engine, EngineOptions, GrantPlace, Plugin, PluginTool, Source};
use haft::tool::{Client, Session, Toolbox};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::common::wait::{until, within};
use crate::common::{cache, hostile, repository};
use crate::serve::Stage;
use crate::serve::http::{Site, reply};

/// Limits on running and waiting calls of one client and one plugin.
const RUN: usize = 22;
const WAIT: usize = 256;

/// Adds the tools of a plugin to the toolbox, as `name__tool`.
async fn put(toolbox: &mut Toolbox, engine: &Engine, name: &str, source: Source) {
    // Longer than the limit of a test, so that a call behind an endless guest fails the test.
    let limits = Limits { time: Duration::from_mins(10), ..Limits::default() };
    let plugin = Plugin::load(engine, name, source, &limits).await.unwrap();
    for def in plugin.tools() {
        let tool = PluginTool::new(&plugin, def, format!("{name}__{}", def.name), GrantPlace::Plugin);
        toolbox.insert(Arc::new(tool), Grant::none(), limits, "the test").unwrap();
    }
}

async fn says(toolbox: &Toolbox, session: &Session, tool: &str, arguments: Value) -> String {
    let call = ToolCall { id: tool.into(), tool: tool.into(), arguments };
    within(&format!("`{tool}` answers"), toolbox.dispatch(call, session)).await.content
}

/// S08: beside a thousand endless guests of one plugin and one client, other plugins answer this client, and the
/// plugin answers other clients; haft refuses excess calls at once, and all guests end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "by night: it measures time"]
async fn one_plugin_keeps_nobody_waiting() {
    let options = EngineOptions { cache: Some(cache()), pooling: true, ..EngineOptions::default() };
    let engine = Engine::new(&options);
    let mut toolbox = Toolbox::default();
    put(&mut toolbox, &engine, "greedy", Source::File(hostile())).await;
    put(&mut toolbox, &engine, "other", Source::File(repository().join("plugins/built/hello.wasm"))).await;
    let (toolbox, greedy) = (Arc::new(toolbox), Session { client: Client::another(), ..Session::default() });
    says(&toolbox, &greedy, "greedy__echo", json!({ "text": "" })).await;
    let mut spinning = JoinSet::new();
    for number in 0..1000 {
        let (toolbox, session) = (toolbox.clone(), greedy.clone());
        let call = ToolCall { id: number.to_string(), tool: "greedy__spin".into(), arguments: json!({}) };
        spinning.spawn(async move { toolbox.dispatch(call, &session).await });
    }
    let begun = Instant::now();
    for _ in 0..1000 - RUN - WAIT {
        let refused = within("too much is refused", spinning.join_next()).await;
        let refused = refused.unwrap().unwrap().content;
        assert_eq!(
            refused,
            "Tool error (haft): `greedy__spin` did not run: 256 calls of its plugin are already waiting; \
             call again when some of them have ended"
        );
    }
    let name = json!({ "name": "you" });
    assert_eq!(says(&toolbox, &greedy, "other__hello", name.clone()).await, "hello you");
    let other = Session { client: Client::another(), ..Session::default() };
    assert_eq!(says(&toolbox, &other, "other__hello", name).await, "hello you");
    assert_eq!(says(&toolbox, &other, "greedy__echo", json!({ "text": "here" })).await, "here");
    eprintln!("three answers beside a thousand guests {:?} after they were called", begun.elapsed());
    greedy.cancel.cancel();
    let ended = within("cancelled calls end", spinning.join_all()).await;
    assert_eq!(ended.len(), RUN + WAIT);
    assert!(ended.iter().all(|end| end.content.contains("was cancelled")), "{:?}", ended.first());
    assert_eq!(says(&toolbox, &Session::default(), "greedy__echo", json!({ "text": "on" })).await, "on");
}

/// The number of guest threads in a process.
fn guests(pid: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let name = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()
    };
    threads.filter_map(name).filter(|name| name.starts_with("haft-guest")).count()
}

/// S08: a client with more endless guests than its share delays no other client, with or without a session, and no
/// other tools of its own.
#[test]
#[ignore = "by night: it measures time"]
fn one_client_keeps_no_other_waiting() {
    let stage = Stage::new("[plugins.limits]\ntime = \"10m\"\n");
    let site = Site::open(&stage);
    let call = |session: &str, tool: &str, arguments: Value| {
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")];
        let params = json!({"name": tool, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).to_string();
        let mut stream = site.connect();
        stream.write_all(site.head("POST", &headers, body.len()).as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        stream
    };
    let text = |stream| reply(stream).answer()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    let (greedy, other) = (site.session(), site.session());
    assert_eq!(text(call(&greedy, "guest__echo", json!({"text": "compiled"}))), "compiled");
    let spinning: Vec<TcpStream> = (0..80).map(|_| call(&greedy, "guest__spin", json!({}))).collect();
    // The client's share of 64 guests.
    until("its share of the guests has begun", || guests(site.child.id()) >= 20);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(text(call(&other, "guest__echo", json!({"text": "other"}))), "other");
    let file = json!({"file_path": stage.path("program.toml")});
    assert!(text(call(&other, "read", file.clone())).contains("[program]"));
    assert!(text(call(&greedy, "read", file)).contains("[program]"));
    let modern =
        site.modern(&[], "tools/call", json!({"name": "guest__echo", "arguments": {"text": "modern"}}));
    assert_eq!(modern.answer()["result"]["content"][0]["text"], "modern", "{modern:?}");
    drop(spinning);
}
