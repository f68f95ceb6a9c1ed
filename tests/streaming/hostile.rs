//! Misbehaving guests of WASI 0.3: each fails its own call, and affects no other.

use haft::grant::Grant;
use haft::limit::Limits;
use serde_json::{Value, json};

use super::within;
use crate::common::grant;
use crate::common::wait::eventually_some;
use crate::guest::{Guest, briefly};

/// Calls a tool that must fail, and then one that must succeed.
async fn fails(guest: &Guest, tool: &str, arguments: Value) -> String {
    let failed = guest.fails(tool, arguments).await;
    // On a busy machine a call may exceed its short time limit.
    eventually_some("the guest is still here", async || {
        let answer = guest.call("plain", json!({ "text": "still here" })).await;
        (answer.content == "still here").then_some(())
    })
    .await;
    failed
}

/// WA03: the result limit ends an endless answer with any pieces, and the number of reported pieces is bounded.
#[tokio::test]
async fn streams_without_end_are_ended() {
    for tool in ["endless", "flood", "nothings"] {
        let guest = within(Grant::none(), Limits { memory: 128 << 20, ..Limits::default() }).await;
        let failed = fails(&guest, tool, json!({})).await;
        let expected =
            format!("Tool error (haft): `{tool}` returned more than 1 MiB; its result limit is 1 MiB");
        assert!(failed.starts_with(&expected), "{failed}");
        assert!(super::pieces(&guest).len() <= 10_000);
    }
}

/// WA03: the time limit ends a call whose answer never comes.
#[tokio::test]
async fn what_never_comes_meets_the_time_limit() {
    for tool in ["silent", "never", "asleep", "spin"] {
        let guest = within(Grant::none(), briefly(300)).await;
        let failed = fails(&guest, tool, json!({})).await;
        let expected = format!("Tool error (haft): `{tool}` timed out after 300ms: reached its time limit");
        assert!(failed.starts_with(&expected), "{failed}");
    }
}

/// WA03: a hundred thousand tasks or unread streams exceed a guest's limit; a thousand do not.
#[tokio::test]
async fn tasks_and_streams_have_a_bound() {
    let guest = within(Grant::none(), Limits::default()).await;
    for tool in ["tasks", "heap"] {
        let failed = fails(&guest, tool, json!({ "count": 100_000 })).await;
        let expected =
            format!("Tool error (haft): `{tool}` reached its limit of 10000 resources, streams and tasks");
        assert_eq!(failed, expected);
    }
    assert_eq!(guest.says("heap", json!({ "count": 1000 })).await, "1000");
}

/// WA03: streams of files count as open files; the limit is 1000.
#[tokio::test]
async fn streams_of_files_have_a_bound() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.txt");
    std::fs::write(&file, "a").unwrap();
    let guest = within(grant(&[directory.path()], &[]), Limits::default()).await;
    let failed = fails(&guest, "hoard", json!({ "path": file, "count": 2000 })).await;
    assert!(failed.contains("reached its limit of 1000 open files and streams"), "{failed}");
    assert_eq!(guest.says("hoard", json!({ "path": file, "count": 500 })).await, "500");
}
