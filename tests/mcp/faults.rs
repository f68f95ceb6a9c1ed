//! Failures of a server: the results of its calls, and the processes left.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::*;
use crate::common::wait::{eventually, eventually_some, within};

/// The calls of a tool that reached the server.
fn calls_of(folder: &Path, tool: &str) -> Vec<Value> {
    let is_meant = |message: &Value| message["method"] == "tools/call" && message["params"]["name"] == tool;
    fake::received(folder).into_iter().filter(is_meant).collect()
}

/// Whether the server got one cancellation of a call.
fn is_cancelled(folder: &Path, call: &Value) -> bool {
    let is_meant = |message: &Value| {
        message["method"] == "notifications/cancelled" && message["params"]["requestId"] == call["id"]
    };
    fake::received(folder).iter().filter(|message| is_meant(message)).count() == 1
}

/// MC07: a request ends at the server's `timeout`; the server gets a cancellation, and haft drops its late answer.
#[tokio::test]
async fn a_late_answer_reaches_nobody() {
    let fixture = Fixture::hasty().await;
    let error = fixture.error("sleep", json!({})).await;
    assert_eq!(error, "Tool error: MCP server `fake` did not answer `tools/call` within 1s");
    let folder = fixture.folder();
    let told = || calls_of(&folder, "sleep").first().is_some_and(|call| is_cancelled(&folder, call));
    eventually("the server is told", told).await;
    std::fs::write(fixture.path("wake"), "").unwrap();
    let woken = fixture.path("woken");
    eventually("the server has answered", || woken.exists()).await;
    assert_eq!(fixture.text_in_time("echo", json!({ "after": 1 })).await, r#"{"after":1}"#);
    assert_eq!(calls_of(&folder, "sleep").len(), 1);
}

/// MC07: the server gets a cancellation if the caller cancels the call or drops it.
#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_the_server() {
    let fixture = Fixture::new(&json!({}));
    fixture.list().await.unwrap();
    let (cancel, folder) = (fixture.workspace.cancel.clone(), fixture.folder());
    let meanwhile = async {
        eventually("the server has the call", || !calls_of(&folder, "sleep").is_empty()).await;
        cancel.cancel();
    };
    let (error, ()) = tokio::join!(fixture.error("sleep", json!({})), meanwhile);
    assert!(error.contains("cancelled"), "{error}");
    eventually("the server is told", || is_cancelled(&folder, &calls_of(&folder, "sleep")[0])).await;
    let fixture = Fixture::new(&json!({}));
    fixture.list().await.unwrap();
    let folder = fixture.folder();
    tokio::select! {
        answer = fixture.call("sleep", json!({})) => panic!("{answer:?}"),
        () = eventually("the server has the call", || !calls_of(&folder, "sleep").is_empty()) => {}
    }
    eventually("the server is told", || is_cancelled(&folder, &calls_of(&folder, "sleep")[0])).await;
}

/// An elicitor that is asked and never answers.
#[derive(Debug, Default)]
struct Silent(AtomicBool);

#[async_trait]
impl Elicitor for Silent {
    async fn ask(&self, _: &haft::tool::ElicitationQuestion) -> haft::tool::Reply {
        self.0.store(true, Ordering::SeqCst);
        std::future::pending().await
    }
}

/// MC07: a server that made a task of a call cancels the task if the caller cancels the call or drops it, also while a person
/// is asked.
#[tokio::test]
async fn the_task_of_a_cancelled_call_is_cancelled_at_the_server() {
    for is_dropped in [false, true] {
        let person = Arc::new(Silent::default());
        let (like, elicitor) = (json!({ "speaks": "2026-07-28" }), Some(person.clone() as Arc<dyn Elicitor>));
        let fixture = Fixture::with(&like, HANG, |host| Host { elicitor, ..host });
        fixture.list().await.unwrap();
        let cancel = fixture.workspace.cancel.clone();
        let asked = async {
            eventually("the person is asked", || person.0.load(Ordering::SeqCst)).await;
            if !is_dropped {
                cancel.cancel();
                std::future::pending::<()>().await;
            }
        };
        let call = async {
            tokio::select! {
                error = fixture.error("task", json!({})) => error,
                () = asked => "dropped".to_owned(),
            }
        };
        let end = within("the call ends", call).await;
        assert!(end.contains(if is_dropped { "dropped" } else { "was cancelled" }), "{end}");
        let folder = fixture.folder();
        let cancelled = || fake::methods(&folder).iter().any(|method| method == "tasks/cancel");
        eventually("the server is told", cancelled).await;
    }
}

/// MC07: a server that stops reading does not block a caller; calls to it time out.
#[tokio::test]
async fn a_server_that_does_not_read_is_not_waited_for() {
    let fixture = Fixture::hasty().await;
    let error = fixture.error("stuck", json!({ "filler": "x".repeat(1000) })).await;
    assert!(error.contains("did not answer"), "{error}");
    let call = fixture.error("echo", json!({ "filler": "x".repeat(1 << 20) }));
    let error = within("the call ends", call).await;
    assert!(error.contains("did not answer"), "{error}");
    // haft noticed that the server is stuck.
    eventually_some("it is started again", async || fixture.call("echo", json!({})).await.ok()).await;
}

/// MC09: a crash fails the running call with the server's last output, and haft does not repeat the call; the next
/// call starts the server again.
#[tokio::test]
async fn a_crash_fails_one_call() {
    let fixture = Fixture::new(&json!({}));
    fixture.list().await.unwrap();
    let error = fixture.error("crash", json!({})).await;
    assert!(
        error.starts_with("Tool error: MCP server `fake` has ended (exit code 7); its last output:\n")
            && error.ends_with("panic: something terrible"),
        "{error}"
    );
    let calls = |tool: &str| calls_of(&fixture.folder(), tool).len();
    assert_eq!((calls("crash"), calls("echo")), (1, 0));
    assert_eq!(fixture.text("echo", json!({ "again": true })).await, r#"{"again":true}"#);
    assert_eq!((calls("crash"), calls("echo")), (1, 1));
}

/// MC09: a crash fails each concurrent call once, and haft repeats none.
#[tokio::test]
async fn no_call_is_made_twice() {
    let fixture = Fixture::new(&json!({}));
    fixture.list().await.unwrap();
    let count = || fixture.call("count", json!({}));
    let counted = || std::fs::read_to_string(fixture.path("counted")).unwrap_or_default().lines().count();
    let crash = async {
        eventually("all three are under way", || counted() == 3).await;
        fixture.call("crash", json!({})).await
    };
    let (one, two, three, crashed) = tokio::join!(count(), count(), count(), crash);
    for result in [one, two, three, crashed] {
        assert!(result.unwrap_err().to_string().contains("has ended"));
    }
    assert_eq!(counted(), 3);
}

/// MC08: the error of a server that cannot start contains its last output or a hint.
#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let fixture = Fixture::new(&json!({ "start": "crash" }));
    let error = fixture.list().await.unwrap_err().to_string();
    assert!(error.contains("exit code 3") && error.ends_with("cannot find module `left-pad`"), "{error}");
    let denied = Fixture::new(&json!({ "start": "denied" }));
    let error = denied.error("echo", json!({})).await;
    assert!(error.contains("hint: the sandbox refused to write"), "{error}");
    let endpoint = Endpoint::Stdio {
        command: vec!["no-such-server-4711".into()],
        folder: "/".into(),
        home: "/".into(),
        environment: values(&[]),
    };
    let missing = Fixture::of(endpoint, HANG, |host| host);
    let error = missing.error("echo", json!({})).await;
    assert!(error.contains("`no-such-server-4711` is not on PATH\nhint: install"), "{error}");
}

/// MC11: a server gets its declared environment alone, and 1 MiB of output on standard error delays no call.
#[tokio::test]
async fn environment_and_noise() {
    let fixture = Fixture::new(&json!({ "noise": 1 << 20 }));
    let text = fixture.text("env", json!({})).await;
    assert!(text.lines().any(|line| line == "OWN=value"), "{text}");
    assert!(!text.contains("CARGO"), "{text}");
}

/// SB10: a server is confined like every child: it writes in the workspace, and not outside.
#[tokio::test]
async fn a_server_writes_where_it_may() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("outside");
    let fixture = Fixture::new(&json!({ "outside": target }));
    let text = fixture.text("env", json!({})).await;
    assert!(text.contains("inside: written") && fixture.path("inside").exists(), "{text}");
    assert!(text.contains("outside: ") && !text.contains("outside: written") && !target.exists(), "{text}");
}

/// MC12: an answer is truncated to the limit of characters, and an answer above 16 MiB is an error.
#[tokio::test]
async fn an_answer_is_bounded() {
    let fixture = Fixture::new(&json!({}));
    let text = fixture.text("large", json!({ "characters": 100_000 })).await;
    assert!(text.chars().count() <= 1000 && text.contains("100000 total chars"), "{text}");
    let error = fixture.error("large", json!({ "characters": 10 << 20 })).await;
    assert!(error.contains("the limit is 16 MiB"), "{error}");
    assert_eq!(fixture.text("echo", json!({})).await, "{}");
}

/// MC10: closing a server ends its process and its children, also if they ignore the request to end.
#[tokio::test]
async fn closing_leaves_no_process() {
    for end in ["", "ignore"] {
        let mark = format!("mc10-{end}-{}", std::process::id());
        let fixture = Fixture::new(&json!({ "end": end, "mark": mark }));
        fixture.text("fork", json!({})).await;
        let forked = fixture.path("forked");
        eventually("it has forked", || forked.exists()).await;
        assert!(is_running(&mark));
        within("it is closed", fixture.server.close()).await;
        eventually("nothing is left", || !is_running(&mark)).await;
        assert!(fixture.error("echo", json!({})).await.contains("is no longer in use"));
    }
}

/// MC10: dropping a server kills its process and its children, also a process that never finishes its start.
#[tokio::test]
async fn dropping_leaves_no_process() {
    let mark = format!("mc10-dropped-{}", std::process::id());
    let fixture = Fixture::new(&json!({ "end": "ignore", "mark": mark }));
    fixture.text("fork", json!({})).await;
    drop(fixture);
    eventually("nothing is left", || !is_running(&mark)).await;
    let mark = format!("mc10-hanging-{}", std::process::id());
    let fixture = Fixture::new(&json!({ "start": "hang", "mark": mark }));
    tokio::select! {
        listed = fixture.list() => panic!("{listed:?}"),
        () = eventually("it is starting", || is_running(&mark)) => {}
    }
    fixture.server.close().await;
    eventually("nothing is left", || !is_running(&mark)).await;
}

/// C18: a malformed answer fails its call at once; a line that is not JSON-RPC is quoted when the call times out.
#[tokio::test]
async fn garbage_is_told_as_what_it_is() {
    let fixture = Fixture::new(&json!({}));
    let error = fixture.error("garbage", json!({ "id": true })).await;
    assert!(error.contains("the server's answer is malformed"), "{error}");
    let fixture = Fixture::hasty().await;
    let told = "did not answer `tools/call` within 1s; it wrote a line that is not JSON-RPC: \
                `Traceback (most recent call last):`";
    let is_told = async || fixture.error("garbage", json!({})).await.ends_with(told).then_some(());
    eventually_some("a line that comes in time is told", is_told).await;
    assert_eq!(fixture.text_in_time("echo", json!({})).await, "{}");
}

/// C18: a server that floods its client with notifications stays alive, also if calls time out meanwhile.
#[tokio::test]
async fn a_flood_of_notifications_ends_no_server() {
    let fixture = Fixture::hasty().await;
    for _ in 0..3 {
        let flooded = fixture.call("flood", json!({ "count": 50_000 })).await;
        let report = flooded.map_or_else(|error| error.to_string(), |result| result.content);
        assert!(report == "flooded" || report.contains("did not answer"), "{report}");
    }
    assert_eq!(fixture.text_in_time("echo", json!({})).await, "{}");
    let starts = fake::methods(&fixture.folder()).iter().filter(|method| *method == "initialize").count();
    assert_eq!(starts, 1, "it was not stopped");
}

/// S16: an error has the length limit of an answer.
#[tokio::test]
async fn an_error_is_bounded() {
    let fixture = Fixture::new(&json!({}));
    let error = fixture.error("refuse", json!({ "characters": 2_000_000 })).await;
    assert!(error.chars().count() <= 1100 && error.contains("total chars"), "{}", error.len());
    assert!(
        error.starts_with("Tool error: MCP server `fake` answered with an error: wrong arguments"),
        "{error}"
    );
}
