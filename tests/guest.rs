//! The hostile guest in a toolbox, with all events of its calls.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::call::{ToolCall, ToolResult};
use haft::event::{Event, Events};
use haft::grant::Grant;
use haft::limit::Limits;
use haft::plugin::{GrantPlace, Injection, Plugin, PluginOptions, PluginTool, Source};
use haft::tool::{Session, Toolbox};
use serde_json::{Value, json};

use crate::common::wait::eventually_some;
use crate::common::{HANG, engine, hostile, repository, toolbox};

/// A component's tools with one grant and one set of limits, under the name `guest`.
#[derive(Clone)]
pub(crate) struct Guest {
    toolbox: Toolbox,
    pub(crate) session: Session,
    received: Arc<Mutex<Vec<Event>>>,
}

/// Limits with a short time limit in milliseconds, which is enough for ordinary calls.
pub(crate) fn briefly(milliseconds: u64) -> Limits {
    Limits { time: Duration::from_millis(milliseconds), ..Limits::default() }
}

impl Guest {
    /// The hostile guest with default limits.
    pub(crate) async fn new(grant: Grant) -> Self {
        Self::within(grant, Limits::default()).await
    }

    /// The hostile guest with these limits.
    pub(crate) async fn within(grant: Grant, limits: Limits) -> Self {
        Self::of(&hostile(), grant, limits).await
    }

    /// Another component.
    pub(crate) async fn of(component: &Path, grant: Grant, limits: Limits) -> Self {
        Self::with(toolbox(component, grant, limits).await)
    }

    /// The plugin `name` that haft contains.
    pub(crate) async fn builtin(name: &str, grant: Grant) -> Self {
        // Longer than any test waits, so that no call ends by this limit.
        let limits = Limits { time: HANG * 2, ..Limits::default() };
        let source = Source::File(repository().join(format!("plugins/built/{name}.wasm")));
        let plugin = Plugin::load(engine(), name, source, &limits).await.unwrap();
        let mut toolbox = Toolbox::default();
        for def in plugin.tools() {
            let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Sandbox);
            toolbox.insert(Arc::new(tool), grant.clone(), limits, "built in").unwrap();
        }
        Self::with(toolbox)
    }

    /// The hostile guest, with headers that haft adds and the guest never sees.
    pub(crate) async fn injecting(grant: Grant, injections: Vec<Injection>) -> Self {
        let limits = Limits::default();
        let plugin = Plugin::load(engine(), "guest", Source::File(hostile()), &limits).await.unwrap();
        let injections = injections.into_iter().collect();
        let plugin = plugin.with(PluginOptions { injections, ..PluginOptions::default() });
        let mut toolbox = Toolbox::default();
        for def in plugin.tools() {
            let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Plugin);
            toolbox.insert(Arc::new(tool), grant.clone(), limits, "the test").unwrap();
        }
        Self::with(toolbox)
    }

    /// The tools of a toolbox.
    pub(crate) fn with(toolbox: Toolbox) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let sink = received.clone();
        let events = Events::to(move |event| sink.lock().unwrap().push(event.clone()));
        let session = Session { events, ..Session::default() };
        Self { toolbox, session, received }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        let call = ToolCall { id: "call-1".into(), tool: tool.into(), arguments };
        self.toolbox.dispatch(call, &self.session).await
    }

    /// Calls a tool that must succeed.
    pub(crate) async fn says(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert!(!result.is_error, "{tool}: {}", result.content);
        result.content
    }

    /// Calls a tool that must fail.
    pub(crate) async fn fails(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert!(result.is_error, "{tool}: {}", result.content);
        result.content
    }

    /// Calls a tool until it answers, because on a busy machine even a trivial call may exceed a short time limit.
    pub(crate) async fn is_still_here(&self) {
        eventually_some("the guest is still here", async || {
            let answer = self.call("echo", json!({ "text": "still here" })).await;
            (answer.content == "still here").then_some(())
        })
        .await;
    }

    /// The events so far, except the starts and ends of calls.
    pub(crate) fn received(&self) -> Vec<Event> {
        let received = self.received.lock().unwrap();
        let news = |event: &&Event| {
            !matches!(event, Event::Started(_) | Event::Running { .. } | Event::Completed { .. })
        };
        received.iter().filter(news).cloned().collect()
    }
}
