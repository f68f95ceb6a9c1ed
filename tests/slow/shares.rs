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

use crate::common::wait::within;
use crate::common::{cache, hostile, repository};

/// Calls of one client of one plugin that run or wait.
const RUN: usize = 22;
const WAIT: usize = 256;

/// Puts the tools of a plugin into the box, as `name__tool`.
async fn put(toolbox: &mut Toolbox, engine: &Engine, name: &str, source: Source) {
    // Longer than a test waits: who is kept waiting by a guest that never ends fails the test.
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

/// S08: a thousand guests of one plugin that never end, called by one client: another plugin answers that
/// client, and this one another; what is too much is refused at once; and all of it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "by night: it measures time"]
async fn s08_one_plugin_keeps_nobody_waiting() {
    let options = EngineOptions { cache: Some(cache()), pooling: true, ahead: 0, ..EngineOptions::default() };
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
    let ended = within("cancelled calls end", spinning.join_all()).await;
    assert_eq!(ended.len(), RUN + WAIT);
    assert!(ended.iter().all(|end| end.content.contains("was cancelled")), "{:?}", ended.first());
    assert_eq!(says(&toolbox, &Session::default(), "greedy__echo", json!({ "text": "on" })).await, "on");
}
