//! Guests that misbehave during a call: each fails its own call with one line, and does not affect other calls.

use haft::event::Event;
use haft::grant::Grant;
use haft::limit::Limits;
use serde_json::{Value, json};

use crate::common::wait::{eventually, eventually_some};
use crate::common::{grant, repository};
use crate::guest::{Guest, briefly};

/// Calls a tool that must end with exactly `expected`, and then a tool that must succeed.
async fn ends(limits: Limits, tool: &str, arguments: Value, expected: &str) {
    let guest = Guest::within(Grant::none(), limits).await;
    assert_eq!(guest.fails(tool, arguments).await, expected);
    guest.is_still_here().await;
}

const MORE_TIME: &str = "hint: to allow more, add `time = \"400ms\"` to `[plugins.limits]` of `guest`";
const MORE_MEMORY: &str = "hint: to allow more, add `memory = \"128MiB\"` to `[plugins.limits]` of `guest`";
/// For an answer whose exact length is unknown, because it exceeds the limit on data passed to haft at once.
const MUCH_MORE: &str = "hint: to allow more, add `result = \"20MiB\"` to `[plugins.limits]` of `guest`";
const MORE_RESULT: &str = "hint: to allow more, add `result = \"2MiB\"` to `[plugins.limits]` of `guest`";

/// WA03: the time limit ends guests that compute, call haft or wait without end.
#[tokio::test]
async fn endless_guests_meet_the_time_limit() {
    for tool in ["spin", "spin_calling", "sleep_forever"] {
        let expected =
            format!("Tool error (haft): `{tool}` timed out after 200ms: reached its time limit\n{MORE_TIME}");
        ends(briefly(200), tool, json!({}), &expected).await;
    }
}

/// WA03: a guest that panics, traps or exits fails its call with one line.
#[tokio::test]
async fn falling_guests_end_with_one_line() {
    for (tool, arguments, expected) in [
        (
            "panic",
            json!({ "message": "first line\nsecond line" }),
            "`panic` panicked at tests/guests/hostile/src/fall.rs:6: first line second line",
        ),
        ("unreachable", json!({}), "`unreachable` panicked"),
        ("exit", json!({ "code": 0 }), "`exit` exited with success instead of answering"),
        ("exit", json!({ "code": 3 }), "`exit` exited with a failure instead of answering"),
        ("recurse", json!({}), "`recurse` trapped: out of bounds memory access, possibly a stack overflow"),
    ] {
        ends(Limits::default(), tool, arguments, &format!("Tool error (haft): {expected}")).await;
    }
}

/// WA03: earlier output of a guest does not hide its panic message.
#[tokio::test]
async fn last_words_are_heard_after_a_flood() {
    let guest = Guest::new(Grant::none()).await;
    let end = guest.fails("talk_and_panic", json!({ "bytes": 100_000 })).await;
    assert_eq!(
        end,
        "Tool error (haft): `talk_and_panic` panicked at tests/guests/hostile/src/fall.rs:14: its last words"
    );
}

/// WA03: the memory limit ends a call that allocates too much memory.
#[tokio::test]
async fn memory_bombs_meet_the_memory_limit() {
    let failed = "(stderr: memory allocation of 1048576 bytes failed)";
    for (tool, arguments) in [("allocate", json!({ "bytes": 4_u64 << 30 })), ("leak", json!({}))] {
        let expected =
            format!("Tool error (haft): `{tool}` reached its memory limit of 64 MiB {failed}\n{MORE_MEMORY}");
        ends(Limits::default(), tool, arguments, &expected).await;
    }
    // A guest whose allocation fails can report the error itself.
    let expected = "Tool error: memory allocation failed because the memory allocator returned an error";
    for tool in ["fill", "flood_result"] {
        ends(Limits::default(), tool, json!({ "bytes": 1 << 30 }), &format!("{expected}\n{MORE_MEMORY}"))
            .await;
    }
}

/// WA03: the result limit refuses answers with too many bytes or too many parts.
#[tokio::test]
async fn long_answers_meet_the_result_limit() {
    let small = Limits { result: 1 << 10, ..Limits::default() };
    for (limits, tool, arguments, expected) in [
        (
            Limits::default(),
            "flood_result",
            json!({ "bytes": (1 << 20) + 1 }),
            format!(
                "`flood_result` returned 1048577 bytes, more than its result limit of 1 MiB\n{MORE_RESULT}"
            ),
        ),
        (
            Limits::default(),
            "flood_result",
            json!({ "bytes": 20 << 20 }),
            format!(
                "`flood_result` passed more than 17 MiB to haft at once; its result limit is 1 MiB\n{MUCH_MORE}"
            ),
        ),
        (
            Limits::default(),
            "flood_pieces",
            json!({ "count": 1_000_000 }),
            format!(
                "`flood_pieces` passed more than 17 MiB to haft at once; its result limit is 1 MiB\n{MUCH_MORE}"
            ),
        ),
        (
            small,
            "flood_pieces",
            json!({ "count": 10_000 }),
            "`flood_pieces` returned 9999 bytes, more than its result limit of 1 KiB\n\
             hint: to allow more, add `result = \"11KiB\"` to `[plugins.limits]` of `guest`"
                .into(),
        ),
    ] {
        ends(limits, tool, arguments, &format!("Tool error (haft): {expected}")).await;
    }
    let guest = Guest::new(Grant::none()).await;
    assert_eq!(guest.says("flood_result", json!({ "bytes": 1 << 20 })).await.len(), 1 << 20);
}

/// WA03: an answer that does not match the tool's declaration is an error.
#[tokio::test]
async fn wrong_data_is_no_answer() {
    for (tool, arguments, what) in [
        ("bad_structured", json!({}), "is not a JSON object"),
        (
            "structured",
            json!({ "fits": false }),
            "does not fit its output schema: at `/answer`: \"42\" is not of type \"integer\"",
        ),
    ] {
        let expected = format!("Tool error (haft): `{tool}` returned structured content that {what}");
        ends(Limits::default(), tool, arguments, &expected).await;
    }
}

/// WA03: the number of open files and streams of a call is limited to 1000.
#[tokio::test]
async fn open_files_are_bounded() {
    let guest = Guest::new(grant(&[repository()], &[])).await;
    let path = repository().join("Cargo.toml");
    let end = guest.fails("many_files", json!({ "path": path, "count": 100_000 })).await;
    assert_eq!(end, "Tool error (haft): `many_files` reached its limit of 1000 open files and streams");
    assert!(guest.says("open", json!({ "path": path })).await.starts_with("[workspace]"));
}

/// WA03: haft passes on at most 1000 messages of a call, each of at most 2000 bytes.
#[tokio::test]
async fn messages_are_bounded() {
    let guest = Guest::new(Grant::none()).await;
    assert_eq!(guest.says("log", json!({ "lines": 3000, "bytes": 10_000 })).await, "logged 3000 lines");
    let received = guest.received();
    assert_eq!(received.len(), 1000);
    let Event::Info { call, message } = &received[999] else { panic!("{:?}", received[999]) };
    assert_eq!(call, "call-1");
    assert!(message.starts_with("line 1000 xxx") && message.len() == 2000, "{}", message.len());
    let guest = Guest::new(Grant::none()).await;
    assert_eq!(guest.says("flood_host", json!({ "calls": 100_000 })).await, "made 100000 calls");
    assert_eq!(guest.received().len(), 1000);
}

/// WA03: cancellation ends a waiting guest as well as a computing guest.
#[tokio::test]
async fn a_sleeping_guest_ends_when_cancelled() {
    let guest = Guest::new(Grant::none()).await;
    // The guest sends a message and then sleeps for an hour.
    let sleeping = guest.fails("progress", json!({ "steps": 2, "ms": 3_600_000 }));
    let cancel = async {
        eventually("the guest has begun", || !guest.received().is_empty()).await;
        guest.session.cancel.cancel();
    };
    let (end, ()) = tokio::join!(sleeping, cancel);
    assert_eq!(end, "Tool error (haft): `progress` was cancelled");
}

/// A guest that polls for cancellation can finish its work; a guest that does not poll is stopped.
#[tokio::test]
async fn a_cancelled_guest_may_leave_things_tidy() {
    // On a busy machine the guest may be stopped before it polls.
    eventually_some("a guest learns that it was cancelled", async || {
        Box::pin(was_tidy_when_cancelled()).await.then_some(())
    })
    .await;
}

/// A guest that polls learns that its time limit is near, and its answer is used.
#[tokio::test]
async fn a_guest_that_asks_is_told_before_its_time_is_over() {
    let guest = Guest::within(Grant::none(), briefly(4000)).await;
    // On a busy machine the guest may be stopped before it polls.
    eventually_some("a guest learns that its time is nearly over", async || {
        let told = guest.call("wait_cancel", json!({ "ms": 20_000 })).await;
        told.content.starts_with("cancelled after ").then_some(())
    })
    .await;
}

/// Cancels a guest that polls, which may have no time to do so, and a guest that does not poll.
async fn was_tidy_when_cancelled() -> bool {
    let guest = Guest::new(Grant::none()).await;
    // The guest is loaded before its time counts.
    guest.says("echo", json!({ "text": "" })).await;
    let other = Guest::new(Grant::none()).await;
    let soon = async {
        // Both guests have begun by the end of this sleep.
        other.says("sleep", json!({ "ms": 100 })).await;
        guest.session.cancel.cancel();
    };
    let (tidy, lingering, ()) = tokio::join!(
        guest.call("wait_cancel", json!({ "ms": 20_000 })),
        guest.fails("linger", json!({})),
        soon
    );
    assert_eq!(lingering, "Tool error (haft): `linger` was cancelled");
    !tidy.is_error && tidy.content.starts_with("cancelled after ")
}

/// A call whose future is dropped stops its guest.
#[tokio::test]
async fn a_guest_nobody_waits_for_is_stopped() {
    let steps = json!({ "steps": 300, "ms": 5 });
    let (guest, other) = (Guest::new(Grant::none()).await, Guest::new(Grant::none()).await);
    let (own, same) = (guest.clone(), steps.clone());
    let call = tokio::spawn(async move { own.call("progress", same).await });
    eventually("progress is heard", || guest.received().len() > 5).await;
    call.abort();
    // A call that begins later completes, and the dropped call does not.
    assert_eq!(other.says("progress", steps).await, "done");
    assert_eq!(other.received().len(), 300);
    let received = guest.received().len();
    assert!(received < 300, "{received}");
}

/// The resident memory of this process in bytes: now and at its peak.
fn resident() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// WA03: floods of every kind do not increase haft's memory. The test runs in a process of its own, whose memory it
/// measures.
#[test]
#[cfg(target_os = "linux")]
fn floods_cost_haft_no_memory() {
    #[expect(clippy::disallowed_methods, reason = "this very program, to run one test of it")]
    let mut test = std::process::Command::new(std::env::current_exe().unwrap());
    let output = test.args(["--ignored", "--exact", "hostile::floods", "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[cfg(target_os = "linux")]
#[ignore = "run by `floods_cost_haft_no_memory` in a process of its own"]
async fn floods() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // The limit of many systems; haft must raise the limit for the files of guests.
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum }).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let guest = Guest::within(grant(&[repository(), directory.path()], &[]), briefly(400)).await;
    guest.is_still_here().await;
    let (before, _) = resident();
    let long = directory.path().join("x".repeat(3000));
    for (tool, arguments) in [
        ("flood_stdout", json!({ "bytes": 4_u64 << 30 })),
        ("flood_stderr", json!({ "bytes": 4_u64 << 30 })),
        ("log", json!({ "lines": u32::MAX, "bytes": 100_000 })),
        ("allocate", json!({ "bytes": 4_u64 << 30 })),
        ("flood_result", json!({ "bytes": 20 << 20 })),
        ("flood_pieces", json!({ "count": 2_000_000 })),
        ("write_many", json!({ "path": long, "count": u32::MAX })),
        ("many_files", json!({ "path": repository().join("Cargo.toml"), "count": 100_000 })),
    ] {
        let end = guest.fails(tool, arguments).await;
        let lines: Vec<&str> = end.lines().collect();
        let (first, hints) = lines.split_first().unwrap();
        assert!(first.starts_with(&format!("Tool error (haft): `{tool}` ")) && first.len() < 500, "{end}");
        assert!(hints.iter().all(|line| line.starts_with("hint: ")), "{end}");
        assert!(!first.contains("too many open files") && !first.contains("os error"), "{end}");
        let (now, most) = resident();
        eprintln!(
            "{tool}: {} MiB, at most {} MiB: {}",
            (now.saturating_sub(before)) >> 20,
            (most - before) >> 20,
            first
        );
        // The guest's own memory of at most 64 MiB is included.
        assert!(most - before < 100 << 20, "{tool}: {} MiB", (most - before) >> 20);
    }
    let large = Limits { memory: Limits::MAX_MEMORY, ..Limits::default() };
    let guest = Guest::within(Grant::none(), large).await;
    assert_eq!(
        guest.fails("flood_result", json!({ "bytes": 1 << 30 })).await,
        "Tool error (haft): `flood_result` passed more than 17 MiB to haft at once; its result limit is 1 MiB\n"
            .to_owned()
            + MUCH_MORE
    );
    assert_eq!(guest.says("echo", json!({ "text": "still here" })).await, "still here");
    // haft frees a guest's memory in the background, so that callers do not wait for it.
    eventually("the memory is given back", || resident().0 - before < 100 << 20).await;
}
