//! What becomes of calls, and of the machine, when a server fails.

use std::time::Instant;

use serde_json::json;

use super::*;
use crate::workspace::eventually;

fn calls_of(folder: &Path) -> usize {
    fake::methods(folder).iter().filter(|method| *method == "tools/call").count()
}

/// MC07: the time of one request is what program.toml says; the server is told, and what it says
/// too late reaches nobody.
#[tokio::test]
async fn mc07_a_late_answer_reaches_nobody() {
    let fixture = Fixture::new(&json!({}), SECOND);
    fixture.list().await.unwrap();
    let error = fixture.error("sleep", json!({ "ms": 2000 })).await;
    assert_eq!(error, "Tool error: MCP server `fake` did not answer `tools/call` within 1s");
    let folder = fixture.folder();
    eventually("the server is told", || {
        fake::methods(&folder).contains(&"notifications/cancelled".to_owned())
    })
    .await;
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(fixture.text("echo", json!({ "after": 1 })).await, r#"{"after":1}"#);
    assert_eq!(calls_of(&folder), 2);
}

/// MC07: so it is when the caller cancels, or goes.
#[tokio::test]
async fn mc07_a_cancelled_call_is_cancelled_at_the_server() {
    let fixture = Fixture::new(&json!({}), LONG);
    fixture.list().await.unwrap();
    let cancel = fixture.workspace.cancel.clone();
    let soon = async {
        tokio::time::sleep(SECOND / 2).await;
        cancel.cancel();
    };
    let begun = Instant::now();
    let (error, ()) = tokio::join!(fixture.error("sleep", json!({ "ms": 20_000 })), soon);
    assert!(error.contains("cancelled") && begun.elapsed() < SECOND * 10, "{error}");
    let folder = fixture.folder();
    let report = || fake::methods(&folder).iter().filter(|m| *m == "notifications/cancelled").count();
    eventually("the server is told", || report() == 1).await;
    let fixture = Fixture::new(&json!({}), LONG);
    fixture.list().await.unwrap();
    let call = fixture.call("sleep", json!({ "ms": 20_000 }));
    assert!(tokio::time::timeout(SECOND / 2, call).await.is_err());
    let folder = fixture.folder();
    eventually("the server is told", || {
        fake::methods(&folder).contains(&"notifications/cancelled".to_owned())
    })
    .await;
}

/// MC07: a server that reads nothing any more does not hold up whoever writes to it.
#[tokio::test]
async fn mc07_a_server_that_does_not_read_is_not_waited_for() {
    let fixture = Fixture::new(&json!({}), SECOND);
    fixture.list().await.unwrap();
    let error = fixture.error("stuck", json!({ "filler": "x".repeat(1000) })).await;
    assert!(error.contains("did not answer"), "{error}");
    let begun = Instant::now();
    let error = fixture.error("echo", json!({ "filler": "x".repeat(1 << 20) })).await;
    assert!(error.contains("did not answer") && begun.elapsed() < SECOND * 8, "{error}");
    // It was found out to be stuck, and is started again.
    let begun = Instant::now();
    while fixture.call("echo", json!({})).await.is_err() {
        assert!(begun.elapsed() < SECOND * 30);
    }
}

/// MC09: the call that is under way fails with the server's last words, and is not made again; the
/// next one finds a server.
#[tokio::test]
async fn mc09_a_crash_fails_one_call() {
    let fixture = Fixture::new(&json!({}), LONG);
    fixture.list().await.unwrap();
    let begun = Instant::now();
    let error = fixture.error("crash", json!({})).await;
    assert!(
        error.starts_with("Tool error: MCP server `fake` has ended (exit code 7); its last words:\n")
            && error.ends_with("panic: something terrible"),
        "{error}"
    );
    assert!(begun.elapsed() < SECOND * 10);
    assert_eq!(calls_of(&fixture.folder()), 1);
    assert_eq!(fixture.text("echo", json!({ "again": true })).await, r#"{"again":true}"#);
    assert_eq!(calls_of(&fixture.folder()), 2);
}

/// MC09: calls of the same server at the same time fail together, each once.
#[tokio::test]
async fn mc09_no_call_is_made_twice() {
    let fixture = Fixture::new(&json!({}), LONG);
    fixture.list().await.unwrap();
    let count = || fixture.call("count", json!({ "ms": 1000 }));
    let crash = async {
        tokio::time::sleep(SECOND / 2).await;
        fixture.call("crash", json!({})).await
    };
    let (one, two, three, crashed) = tokio::join!(count(), count(), count(), crash);
    for result in [one, two, three, crashed] {
        assert!(result.unwrap_err().to_string().contains("has ended"));
    }
    let counted = std::fs::read_to_string(fixture.path("counted")).unwrap();
    assert_eq!(counted.lines().count(), 3);
}

/// MC08, MC09: a server that never begins is told of with its last words, and is not started as
/// often as it is asked for.
#[tokio::test]
async fn mc08_a_server_that_cannot_start_says_why() {
    let fixture = Fixture::new(&json!({ "start": "crash" }), LONG);
    let error = fixture.list().await.unwrap_err().to_string();
    assert!(error.contains("exit code 3") && error.ends_with("cannot find module `left-pad`"), "{error}");
    let begun = Instant::now();
    for _ in 0..4 {
        fixture.error("echo", json!({})).await;
    }
    // 0, 250, 500 and 1000 ms.
    assert!(begun.elapsed() >= Duration::from_millis(1700), "{:?}", begun.elapsed());
    let denied = Fixture::new(&json!({ "start": "denied" }), LONG);
    let error = denied.error("echo", json!({})).await;
    assert!(error.contains("hint: servers are confined as `bash` is"), "{error}");
    let endpoint = Endpoint::Stdio {
        command: vec!["no-such-server-4711".into()],
        folder: "/".into(),
        home: "/".into(),
        environment: values(&[]),
    };
    let missing = Fixture::of(endpoint, LONG, |host| host);
    let error = missing.error("echo", json!({})).await;
    assert!(error.contains("`no-such-server-4711` is not on PATH\nhint: install"), "{error}");
}

/// MC11: a server is told what it was declared to be told, and 1 MiB of noise holds nobody up.
#[tokio::test]
async fn mc11_environment_and_noise() {
    let fixture = Fixture::new(&json!({ "noise": 1 << 20 }), LONG);
    let text = fixture.text("env", json!({})).await;
    assert!(text.lines().any(|line| line == "OWN=value"), "{text}");
    assert!(!text.contains("CARGO"), "{text}");
}

/// SB10: a server is confined as every child is.
#[tokio::test]
async fn sb10_a_server_writes_where_it_may() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("outside");
    let fixture = Fixture::new(&json!({ "outside": target }), LONG);
    let text = fixture.text("env", json!({})).await;
    assert!(text.contains("inside: written") && fixture.path("inside").exists(), "{text}");
    assert!(text.contains("outside: ") && !text.contains("outside: written") && !target.exists(), "{text}");
}

/// MC12
#[tokio::test]
async fn mc12_an_answer_is_bounded() {
    let fixture = Fixture::new(&json!({}), LONG);
    let text = fixture.text("large", json!({ "characters": 100_000 })).await;
    assert!(text.chars().count() <= 1000 && text.contains("100000 total chars"), "{text}");
    let error = fixture.error("large", json!({ "characters": 10 << 20 })).await;
    assert!(error.contains("at most 16 MiB are read"), "{error}");
    assert_eq!(fixture.text("echo", json!({})).await, "{}");
}

/// MC10: closed in order it ends by itself; one that does not is ended, and so is what it started.
#[tokio::test]
async fn mc10_closing_leaves_no_process() {
    for (end, bound) in [("", SECOND * 6), ("ignore", SECOND * 9)] {
        let mark = format!("mc10-{end}-{}", std::process::id());
        let fixture = Fixture::new(&json!({ "end": end, "mark": mark }), LONG);
        fixture.text("fork", json!({})).await;
        let forked = fixture.path("forked");
        eventually("it has forked", || forked.exists()).await;
        assert!(is_running(&mark));
        let begun = Instant::now();
        fixture.server.close().await;
        assert!(begun.elapsed() < bound, "{end}: {:?}", begun.elapsed());
        eventually("nothing is left", || !is_running(&mark)).await;
        assert!(fixture.error("echo", json!({})).await.contains("not used any more"));
    }
}

/// MC10: dropped it is killed, with what it started; also when it never came to begin.
#[tokio::test]
async fn mc10_dropping_leaves_no_process() {
    let mark = format!("mc10-dropped-{}", std::process::id());
    let fixture = Fixture::new(&json!({ "end": "ignore", "mark": mark }), LONG);
    fixture.text("fork", json!({})).await;
    drop(fixture);
    eventually("nothing is left", || !is_running(&mark)).await;
    let mark = format!("mc10-hanging-{}", std::process::id());
    let fixture = Fixture::new(&json!({ "start": "hang", "mark": mark }), LONG);
    assert!(tokio::time::timeout(SECOND * 3, fixture.list()).await.is_err());
    eventually("it is starting", || is_running(&mark)).await;
    fixture.server.close().await;
    eventually("nothing is left", || !is_running(&mark)).await;
}

/// C18: an answer that is no JSON fails its call at once, and a line that is none is told when no answer comes.
#[tokio::test]
async fn c18_garbage_is_told_as_what_it_is() {
    let fixture = Fixture::new(&json!({}), LONG);
    let error = fixture.error("garbage", json!({ "id": true })).await;
    assert!(error.contains("the server's answer is malformed"), "{error}");
    let fixture = Fixture::new(&json!({}), SECOND * 2);
    fixture.list().await.unwrap();
    let error = fixture.error("garbage", json!({})).await;
    assert!(
        error.ends_with(
            "did not answer `tools/call` within 2s; it wrote a line that is not JSON-RPC: \
             `Traceback (most recent call last):`"
        ),
        "{error}"
    );
    assert_eq!(fixture.text("echo", json!({})).await, "{}");
}

/// C18: a server that floods its client with notifications, and is given up meanwhile, has not ended.
#[tokio::test]
async fn c18_a_flood_of_notifications_ends_no_server() {
    let fixture = Fixture::new(&json!({}), SECOND);
    fixture.list().await.unwrap();
    for _ in 0..3 {
        let flooded = fixture.call("flood", json!({ "count": 50_000 })).await;
        let report = flooded.map_or_else(|error| error.to_string(), |result| result.content);
        assert!(report == "flooded" || report.contains("did not answer"), "{report}");
    }
    let started = Instant::now();
    loop {
        match fixture.call("echo", json!({})).await {
            Ok(result) => break assert_eq!(result.content, "{}"),
            Err(error) => assert!(error.to_string().contains("did not answer"), "{error}"),
        }
        assert!(started.elapsed() < LONG);
    }
    let starts = fake::methods(&fixture.folder()).iter().filter(|method| *method == "initialize").count();
    assert_eq!(starts, 1, "it was not stopped");
}

/// S16: an error is as long as an answer may be.
#[tokio::test]
async fn s16_an_error_is_bounded() {
    let fixture = Fixture::new(&json!({}), LONG);
    let error = fixture.error("refuse", json!({ "characters": 2_000_000 })).await;
    assert!(error.chars().count() <= 1100 && error.contains("total chars"), "{}", error.len());
    assert!(
        error.starts_with("Tool error: MCP server `fake` answered with an error: wrong arguments"),
        "{error}"
    );
}
