//! Servers built with third-party SDKs, which `.ci/steps/mcp-components` provides in a folder.

use std::path::PathBuf;
use std::time::Duration;

use haft::event::Event;
use haft::grant::Grant;
use haft::limit::Limits;
use serde_json::json;

use crate::guest::Guest;

/// The component `name`, if it exists.
fn built(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("HAFT_TEST_MCP_COMPONENTS")?;
    Some(PathBuf::from(folder).join(name).with_extension("wasm")).filter(|file| file.exists())
}

async fn check(name: &str) {
    let Some(file) = built(name) else {
        return eprintln!("SKIPPED: no server `{name}`; .ci/steps/mcp-components builds it");
    };
    let limits = Limits { time: Duration::from_mins(2), memory: 256 << 20, ..Limits::default() };
    let guest = Guest::of(&file, Grant::none(), limits).await;
    let sum = guest.call("add", json!({ "a": 1, "b": 2 })).await;
    assert!(!sum.is_error, "{}", sum.content);
    assert_eq!(sum.structured, Some(json!({ "sum": 3 })));
    assert_eq!(guest.says("count", json!({ "to": 5 })).await, "counted to 5");
    let steps = guest.received().into_iter().filter(|event| matches!(event, Event::Progress { .. })).count();
    // An answer as JSON has no progress.
    assert_eq!(steps, if name.ends_with("-json") { 0 } else { 5 });
    assert!(guest.fails("fail", json!({})).await.contains("it broke"));
    assert_eq!(guest.says("env", json!({ "name": "PATH" })).await, "unset");
    let refused = guest.fails("get", json!({ "url": "http://127.0.0.1:1/" })).await;
    assert!(refused.contains("hosts = ["), "{refused}");
}

#[tokio::test]
async fn the_official_typescript_sdk_in_a_component() {
    check("typescript").await;
}

#[tokio::test]
async fn the_official_typescript_sdk_answering_as_json() {
    check("typescript-json").await;
}

#[tokio::test]
async fn the_official_rust_sdk_in_a_component() {
    check("rust").await;
}
