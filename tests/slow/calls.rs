//! The start of a call's time limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use haft::call::{ToolCall, ToolDef, ToolResult};
use haft::grant::Grant;
use haft::limit::Limits;
use haft::tool::{Context, Preparation, Tool, ToolError, Toolbox};
use serde_json::json;

use crate::common::call;

/// A tool whose one preparation takes longer than the time limit of its calls.
struct Slow {
    def: ToolDef,
    is_ready: AtomicBool,
}

impl Slow {
    async fn get_ready(&self) {
        tokio::time::sleep(Duration::from_secs(4)).await;
        self.is_ready.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl Tool for Slow {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn preparation(&self) -> Option<Preparation<'_>> {
        if self.is_ready.load(Ordering::Relaxed) { None } else { Some(Box::pin(self.get_ready())) }
    }

    async fn call(&self, call: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        if !self.is_ready.load(Ordering::Relaxed) {
            self.get_ready().await;
        }
        Ok(ToolResult::success(call.id.clone()))
    }
}

#[tokio::test]
#[ignore = "by night: it measures time"]
async fn the_time_of_a_call_begins_when_its_tool_is_ready() {
    let mut toolbox = Toolbox::default();
    let limits = Limits { time: Duration::from_millis(1), ..Limits::default() };
    let def = ToolDef { name: "slow".into(), parameters: json!({ "type": "object" }), ..ToolDef::default() };
    let tool = Slow { def, is_ready: AtomicBool::new(false) };
    toolbox.insert(Arc::new(tool), Grant::none(), limits, "the test").unwrap();
    assert_eq!(call(&toolbox, "slow", json!({})).await.content, "test");
}
