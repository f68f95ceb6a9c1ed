//! MCP servers in components of WASI 0.3 (`wasi:http/handler`).

use haft::event::Event;
use haft::grant::Grant;
use haft::limit::Limits;
use haft::plugin::{Contract, Plugin, Source};
use serde_json::json;

use crate::common::{engine, repository};
use crate::guest::{Guest, briefly};

fn server() -> std::path::PathBuf {
    repository().join("tests/guests/built/handler.wasm")
}

/// WA01: the tools of a server in a component are the plugin's tools, and each call is a request to it.
#[tokio::test]
async fn a_server_of_wasi_0_3_is_a_plugin() {
    let plugin = Plugin::load(engine(), "served", Source::File(server()), &Limits::default()).await.unwrap();
    assert_eq!(plugin.contract(), Contract::Mcp);
    let guest = Guest::of(&server(), Grant::none(), Limits::default()).await;
    assert_eq!(guest.says("echo", json!({ "text": "hé" })).await, "hé");
    assert_eq!(guest.says("count", json!({ "to": 5 })).await, "5");
    let progress = guest.received().into_iter().filter_map(|event| match event {
        Event::Progress { done, .. } => Some(done),
        _ => None,
    });
    assert_eq!(progress.collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 5.0]);
}

/// WA03: a server that traps or never answers fails its own call alone.
#[tokio::test]
async fn a_server_of_wasi_0_3_that_falls_affects_no_other() {
    let guest = Guest::of(&server(), Grant::none(), briefly(2000)).await;
    let trapped = guest.fails("trap", json!({})).await;
    assert!(trapped.contains("`trap` panicked"), "{trapped}");
    let never = guest.fails("never", json!({})).await;
    assert!(never.contains("timed out after 2s"), "{never}");
    guest.is_still_here().await;
}
