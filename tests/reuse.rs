//! `[plugins.reuse]`: instances that serve several calls. The state that they carry from one call to the next, and
//! the state that they must not carry.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use haft::call::ToolCall;
use haft::event::{Event, Events};
use haft::grant::Grant;
use haft::limit::Limits;
use haft::limit::Reuse;
use haft::plugin::{GrantPlace, Plugin, PluginOptions, PluginTool, Source};
use haft::tool::inline::{self, ThreadLoad};
use haft::tool::{Session, Toolbox};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::common::wait::{eventually, eventually_some, until_some, within};
use crate::common::{call, engine, grant, hostile};

/// Limits so large that no instance expires during a test.
const USUAL: Reuse = Reuse { max_calls: 100, max_idle: Duration::from_mins(5), max_concurrent: 1 };

async fn plugin(reuse: Reuse) -> Plugin {
    let source = Source::File(hostile());
    let plugin = Plugin::load(engine(), "guest", source, &Limits::default()).await.unwrap();
    plugin.with(PluginOptions { reuse: Some(reuse), ..PluginOptions::default() })
}

/// The tools of `plugin` with a separate grant, as an agent may have them.
fn agent(plugin: &Plugin, grant: &Grant, limits: Limits) -> Toolbox {
    let mut toolbox = Toolbox::default();
    for def in plugin.tools() {
        let tool = PluginTool::new(plugin, def, def.name.clone(), GrantPlace::Plugin);
        toolbox.insert(Arc::new(tool), grant.clone(), limits, "the test").unwrap();
    }
    toolbox
}

async fn only(reuse: Reuse) -> Toolbox {
    agent(&plugin(reuse).await, &Grant::none(), Limits::default())
}

/// The number of `count_calls` that the serving instance has received.
async fn count(toolbox: &Toolbox) -> String {
    let result = call(toolbox, "count_calls", json!({})).await;
    assert!(!result.is_error, "{}", result.content);
    result.content
}

/// A session, and a channel with the start and progress events of its calls.
fn heard() -> (Session, UnboundedReceiver<()>) {
    let (sender, receiver) = unbounded_channel();
    let events = Events::to(move |event| {
        if matches!(event, Event::Running { .. } | Event::Progress { .. }) {
            let _ = sender.send(());
        }
    });
    (Session { events, ..Session::default() }, receiver)
}

async fn fails(toolbox: &Toolbox, tool: &str, arguments: Value) -> String {
    let result = call(toolbox, tool, arguments).await;
    assert!(result.is_error, "{tool}: {}", result.content);
    result.content
}

#[tokio::test]
async fn an_instance_serves_so_many_calls_and_no_more() {
    let toolbox = only(Reuse { max_calls: 3, ..USUAL }).await;
    let mut seen = Vec::new();
    for _ in 0..7 {
        seen.push(count(&toolbox).await);
    }
    assert_eq!(seen, ["1", "2", "3", "1", "2", "3", "1"]);
}

/// A tool's error does not replace its instance; a trap, an exit and an exceeded limit do.
#[tokio::test]
async fn an_instance_that_ended_is_replaced() {
    let toolbox = only(USUAL).await;
    assert_eq!(count(&toolbox).await, "1");
    fails(&toolbox, "open", json!({ "path": "/no/such/file" })).await;
    assert_eq!(count(&toolbox).await, "2", "after an error");
    for (tool, arguments) in [
        ("panic", json!({})),
        ("exit", json!({ "code": 0 })),
        ("unreachable", json!({})),
        ("fill", json!({ "bytes": 1 << 30 })),
    ] {
        fails(&toolbox, tool, arguments).await;
        assert_eq!(count(&toolbox).await, "1", "after {tool}");
        assert_eq!(count(&toolbox).await, "2", "after {tool}");
    }
}

#[tokio::test]
async fn an_instance_whose_call_took_too_long_is_replaced() {
    let plugin = plugin(USUAL).await;
    let limits = Limits { time: Duration::from_secs(2), ..Limits::default() };
    let toolbox = agent(&plugin, &Grant::none(), limits);
    assert_eq!(count(&toolbox).await, "1");
    for tool in ["spin", "sleep_forever"] {
        assert!(fails(&toolbox, tool, json!({})).await.contains("timed out after 2s"), "{tool}");
        assert_eq!(count(&toolbox).await, "1", "{tool}");
    }
}

#[tokio::test]
async fn an_instance_whose_call_was_cancelled_is_replaced() {
    let toolbox = only(USUAL).await;
    assert_eq!(count(&toolbox).await, "1");
    // Both tools send an event first; then one computes and the other sleeps for an hour.
    for (tool, arguments) in
        [("flood_host", json!({ "calls": u32::MAX })), ("progress", json!({ "steps": 2, "ms": 3_600_000 }))]
    {
        let (session, mut heard) = heard();
        let cancel = session.cancel.clone();
        let call = ToolCall { id: "1".into(), tool: tool.into(), arguments };
        let own = toolbox.clone();
        let under_way = tokio::spawn(async move { own.dispatch(call, &session).await });
        for _ in ["it runs", "its guest has begun"] {
            within(tool, heard.recv()).await.unwrap();
        }
        cancel.cancel();
        assert!(under_way.await.unwrap().content.contains("was cancelled"), "{tool}");
        assert_eq!(count(&toolbox).await, "1", "{tool}");
    }
}

#[tokio::test]
async fn an_idle_instance_is_given_up() {
    let toolbox = only(Reuse { max_calls: u32::MAX, max_idle: Duration::from_millis(1), ..USUAL }).await;
    for _ in 0..2 {
        eventually_some("a fresh instance serves", async || (count(&toolbox).await == "1").then_some(()))
            .await;
    }
    let never = only(Reuse { max_idle: Duration::ZERO, ..USUAL }).await;
    assert_eq!((count(&never).await, count(&never).await), ("1".into(), "1".into()));
}

/// Calls beyond `max_concurrent` wait, and all of them complete.
#[tokio::test]
async fn so_many_calls_at_once_and_the_others_wait() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, number: usize| directory.path().join(format!("{name}-{number}"));
    let plugin = plugin(Reuse { max_concurrent: 2, ..USUAL }).await;
    let toolbox = agent(&plugin, &grant(&[], &[directory.path()]), Limits::default());
    std::fs::write(directory.path().join("held"), "served").unwrap();
    let holders: Vec<_> = (0..6)
        .map(|number| {
            let (ready, go) = (path("ready", number), path("go", number));
            let hold = json!({ "directory": directory.path(), "ready": ready, "go": go, "name": "held" });
            let toolbox = toolbox.clone();
            tokio::spawn(async move { call(&toolbox, "hold", hold).await.content })
        })
        .collect();
    let begun = || (0..6).filter(|number| path("ready", *number).exists()).collect::<Vec<_>>();
    for turn in 1..=3 {
        eventually("two more have begun", || begun().len() >= 2 * turn).await;
        assert_eq!(begun().len(), 2 * turn);
        for number in begun() {
            std::fs::write(path("go", number), "").unwrap();
        }
    }
    for holder in holders {
        assert_eq!(holder.await.unwrap(), "served");
    }
}

/// A call waits for an instance at most for its time limit, and not after its cancellation.
#[tokio::test]
async fn waiting_for_an_instance_is_bounded() {
    let plugin = plugin(USUAL).await;
    let patient =
        agent(&plugin, &Grant::none(), Limits { time: Duration::from_hours(1), ..Limits::default() });
    let hasty =
        agent(&plugin, &Grant::none(), Limits { time: Duration::from_millis(200), ..Limits::default() });
    // The first call compiles the plugin.
    count(&patient).await;
    let session = Session::default();
    let (busy, own) = (session.cancel.clone(), patient.clone());
    let sleep = ToolCall { id: "1".into(), tool: "sleep".into(), arguments: json!({ "ms": 3_600_000 }) };
    let sleeper = tokio::spawn(async move { own.dispatch(sleep, &session).await });
    let late = eventually_some("the sleeper is the first", async || {
        let late = call(&hasty, "count_calls", json!({})).await.content;
        late.contains("instances of its plugin were busy").then_some(late)
    })
    .await;
    assert!(
        late.contains("`count_calls` timed out after 200ms: all 1 instances of its plugin were busy"),
        "{late}"
    );
    let (session, mut heard) = heard();
    let cancel = session.cancel.clone();
    let waiting = tokio::spawn(async move {
        let call = ToolCall { id: "1".into(), tool: "count_calls".into(), arguments: json!({}) };
        patient.dispatch(call, &session).await.content
    });
    // The task that sends this event continues until it waits.
    within("the call runs", heard.recv()).await.unwrap();
    cancel.cancel();
    assert!(within("the call ends", waiting).await.unwrap().contains("was cancelled while it waited"));
    busy.cancel();
    sleeper.await.unwrap();
}

/// An instance never serves a call with another grant or other limits.
#[tokio::test]
async fn an_instance_never_serves_a_call_with_other_rights() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "inside").unwrap();
    let path = json!({ "path": directory.path().join("file") });
    let plugin = plugin(Reuse { max_concurrent: 4, ..USUAL }).await;
    let wide = agent(&plugin, &grant(&[], &[directory.path()]), Limits::default());
    let reading = agent(&plugin, &grant(&[directory.path()], &[]), Limits::default());
    let narrow = wide.select(&["*".parse().unwrap()], Some(&Grant::none()));
    let less =
        agent(&plugin, &grant(&[], &[directory.path()]), Limits { memory: 32 << 20, ..Limits::default() });
    for round in ["1", "2", "3"] {
        for (who, toolbox) in [("wide", &wide), ("reading", &reading), ("narrow", &narrow), ("less", &less)] {
            assert_eq!(count(toolbox).await, round, "{who}");
        }
        assert!(call(&wide, "open", path.clone()).await.content.contains("inside"));
        assert!(call(&reading, "open", path.clone()).await.content.contains("inside"));
        fails(&narrow, "open", path.clone()).await;
        let write = json!({ "path": directory.path().join("new"), "text": "x" });
        assert!(!call(&wide, "write", write.clone()).await.is_error);
        fails(&reading, "write", write.clone()).await;
        fails(&narrow, "write", write).await;
    }
}

/// The number of instances never exceeds the limit, even if their rights differ.
#[tokio::test]
async fn an_instance_gives_way_to_one_with_other_rights() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = plugin(USUAL).await;
    let first = agent(&plugin, &Grant::none(), Limits::default());
    let second = agent(&plugin, &grant(&[directory.path()], &[]), Limits::default());
    for _ in 0..2 {
        assert_eq!((count(&first).await, count(&second).await), ("1".into(), "1".into()));
    }
}

/// If a granted directory has been replaced, haft replaces the instance, which has the old directory open.
#[tokio::test]
async fn an_instance_is_replaced_with_its_directories() {
    let place = tempfile::tempdir().unwrap();
    let granted = place.path().join("granted");
    let write = |name: &str| json!({ "path": granted.join(name), "text": "x" });
    std::fs::create_dir(&granted).unwrap();
    let plugin = plugin(USUAL).await;
    for (name, rights) in [("first", grant(&[], &[&granted])), ("second", grant(&[&granted], &[]))] {
        // The file of the earlier round.
        let _ = std::fs::remove_file(granted.join("after"));
        let toolbox = agent(&plugin, &rights, Limits::default());
        assert_eq!(count(&toolbox).await, "1");
        call(&toolbox, "list_dir", json!({ "path": granted })).await;
        call(&toolbox, "write", write(name)).await;
        assert_eq!(count(&toolbox).await, "2");
        let away = place.path().join(name);
        std::fs::rename(&granted, &away).unwrap();
        std::fs::create_dir(&granted).unwrap();
        std::fs::write(granted.join("new"), "").unwrap();
        assert_eq!(count(&toolbox).await, "1");
        let listed = call(&toolbox, "list_dir", json!({ "path": granted })).await;
        assert!(listed.content.contains("new"), "{}", listed.content);
        call(&toolbox, "write", write("after")).await;
        assert!(!away.join("after").exists());
        assert_eq!(granted.join("after").exists(), name == "first");
    }
}

/// The result of a call has no refusal and no output of an earlier call.
#[tokio::test]
async fn what_is_told_of_a_call_is_that_of_this_call() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = plugin(USUAL).await;
    let toolbox = agent(&plugin, &grant(&[directory.path()], &[]), Limits::default());
    let outside = fails(&toolbox, "write", json!({ "path": directory.path().join("x"), "text": "" })).await;
    assert!(outside.contains("hint: to allow it, add `write ="), "{outside}");
    call(&toolbox, "print", json!({ "text": "printed before" })).await;
    let missing = fails(&toolbox, "open", json!({ "path": directory.path().join("missing") })).await;
    assert!(!missing.contains("add `write ="), "{missing}");
    let ended = fails(&toolbox, "panic", json!({})).await;
    assert!(!ended.contains("printed before"), "{ended}");
}

/// Polls one call of `count_calls` once; its answer if that completes the call.
fn count_at_once(toolbox: &Toolbox) -> Option<String> {
    let mut counted = std::pin::pin!(call(toolbox, "count_calls", json!({})));
    match counted.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result.content),
        Poll::Pending => None,
    }
}

/// Short calls run on the thread that read them, as with fresh instances: in sequence before the cleanup, and by one
/// instance.
#[test]
fn short_calls_of_a_reused_instance_run_inline() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let toolbox = runtime.block_on(only(Reuse { max_calls: u32::MAX, ..USUAL }));
    let reader = move || {
        // The first call compiles the schema, for which it would leave this thread.
        runtime.block_on(count(&toolbox));
        inline::enable();
        let _inside = runtime.enter();
        // haft does not run the next call inline after a long call, which may happen on a busy machine.
        until_some("two calls run inline", || {
            runtime.block_on(count(&toolbox));
            let two = count_at_once(&toolbox).zip(count_at_once(&toolbox));
            inline::run_cleanups(ThreadLoad::Idle);
            two
        })
    };
    let (first, second) = std::thread::spawn(reader).join().unwrap();
    assert_eq!(first.parse::<u32>().unwrap() + 1, second.parse::<u32>().unwrap());
}
