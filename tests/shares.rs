//! Plugins and clients that want everything: the others are served all the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::call::ToolCall;
use haft::grant::Grant;
use haft::limit::Limits;
use haft::plugin::{Engine, EngineOptions, GrantPlace, Plugin, PluginTool, Source};
use haft::tool::{Client, Session, Toolbox};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::common::{cache, hostile, repository};
use crate::tiny::Tiny;

/// Longer than anything takes that does not wait for guests that never end.
const LONG: Duration = Duration::from_mins(1);

/// Calls of one client of one plugin that run or wait.
const RUN: usize = 22;
const WAIT: usize = 256;

fn engine(ahead: usize) -> Engine {
    Engine::new(&EngineOptions { cache: Some(cache()), pooling: true, ahead, ..EngineOptions::default() })
}

/// Puts the tools of a plugin into the box, as `name__tool`.
async fn put(toolbox: &mut Toolbox, engine: &Engine, name: &str, source: Source) {
    let limits = Limits { time: Duration::from_mins(10), ..Limits::default() };
    let plugin = Plugin::load(engine, name, source, &limits).await.unwrap();
    for def in plugin.tools() {
        let tool = PluginTool::new(&plugin, def, format!("{name}__{}", def.name), GrantPlace::Plugin);
        toolbox.insert(Arc::new(tool), Grant::none(), limits, "the test").unwrap();
    }
}

async fn says(toolbox: &Toolbox, session: &Session, tool: &str, arguments: Value) -> String {
    let call = ToolCall { id: tool.into(), tool: tool.into(), arguments };
    let result = tokio::time::timeout(LONG, toolbox.dispatch(call, session)).await;
    result.unwrap_or_else(|_| panic!("`{tool}` is kept waiting")).content
}

/// S08: a thousand guests of one plugin that never end, called by one client: another plugin answers that
/// client, and this one another; what is too much is refused at once; and all of it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s08_one_plugin_keeps_nobody_waiting() {
    let engine = engine(0);
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
        let refused = tokio::time::timeout(LONG, spinning.join_next()).await.expect("too much waits");
        let refused = refused.unwrap().unwrap().content;
        assert_eq!(
            refused,
            "Tool error (haft): `greedy__spin` did not run: 256 calls of its plugin wait already; call again when \
             some of them are over"
        );
    }
    let name = json!({ "name": "you" });
    assert_eq!(says(&toolbox, &greedy, "other__hello", name.clone()).await, "hello you");
    let other = Session { client: Client::another(), ..Session::default() };
    assert_eq!(says(&toolbox, &other, "other__hello", name).await, "hello you");
    assert_eq!(says(&toolbox, &other, "greedy__echo", json!({ "text": "here" })).await, "here");
    eprintln!("three answers beside a thousand guests {:?} after they were called", begun.elapsed());
    greedy.cancel.cancel();
    let ended = tokio::time::timeout(LONG, spinning.join_all()).await.expect("cancelled calls go on");
    assert_eq!(ended.len(), RUN + WAIT);
    assert!(ended.iter().all(|end| end.content.contains("was cancelled")), "{:?}", ended.first());
    assert_eq!(says(&toolbox, &Session::default(), "greedy__echo", json!({ "text": "on" })).await, "on");
}

/// S08: instances that are made ahead of calls leave room for the calls themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s08_instances_made_ahead_leave_room() {
    const PLUGINS: usize = 12;
    let engine = engine(EngineOptions::MAX_AHEAD);
    let mut toolbox = Toolbox::default();
    for number in 0..=PLUGINS {
        let tiny = Tiny { answer: format!("answer {number}"), ..Tiny::default() };
        put(&mut toolbox, &engine, &format!("p{number}"), tiny.source()).await;
    }
    let session = Session::default();
    for number in 0..PLUGINS {
        for _ in 0..3 {
            let tool = format!("p{number}__tiny");
            assert_eq!(says(&toolbox, &session, &tool, json!({})).await, format!("answer {number}"));
        }
    }
    // Sixteen of each would be more than there is room for.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let last = format!("p{PLUGINS}__tiny");
    assert_eq!(says(&toolbox, &session, &last, json!({})).await, format!("answer {PLUGINS}"));
}
