//! Components as tools.

use haft::grant::Grant;
use haft::limit::Limits;
use serde_json::json;

use crate::common::{call, hostile, toolbox};

#[tokio::test]
async fn smoke() {
    let toolbox = toolbox(
        &hostile(),
        Grant::none(),
        Limits { time: std::time::Duration::from_secs(2), ..Limits::default() },
    )
    .await;
    for def in toolbox.defs() {
        println!("{} {}", def.name, def.parameters);
    }
    for (tool, args) in [
        ("echo", json!({"text":"hi"})),
        ("spin", json!({})),
        ("panic", json!({})),
        ("exit", json!({"code":3})),
        ("recurse", json!({})),
        ("allocate", json!({"bytes": 4u64<<30})),
        ("flood_result", json!({"bytes": 1u64<<30})),
        ("flood_result", json!({"bytes": 8u64<<20})),
        ("flood_result", json!({"bytes": 20u64<<20})),
        ("flood_stdout", json!({"bytes": 1u64<<28})),
        ("env", json!({})),
        ("args", json!({})),
        ("stdin", json!({})),
        ("open", json!({"path":"/etc/passwd"})),
        ("write", json!({"path":"/tmp/x","text":"x"})),
        ("connect", json!({"address":"127.0.0.1:22"})),
        ("lookup", json!({"host":"localhost"})),
        ("sleep_forever", json!({})),
        ("count_calls", json!({})),
        ("count_calls", json!({})),
        ("many_files", json!({"path":"/etc/passwd"})),
    ] {
        let begun = std::time::Instant::now();
        let result = call(&toolbox, tool, args.clone()).await;
        println!(
            "{tool} {args}: {:?} in {:?}",
            result.content.chars().take(400).collect::<String>(),
            begun.elapsed()
        );
    }
}
