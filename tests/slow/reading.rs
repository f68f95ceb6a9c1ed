//! A client that reads nothing: haft stops reading from it, which shows as a period without any activity.

use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::wait::{ended, until_some};
use crate::serve::Stage;
use crate::serve::bounds::{called, opened};

/// Bytes of a call's text, and of its answer.
const TEXT: usize = 64 << 10;

/// Calls of a client that reads nothing: their answers exceed the limit on pending bytes.
const CALLS: usize = 1800;

/// Waits until a count has not changed for 3 s; the count.
fn settled(count: &AtomicUsize) -> usize {
    until_some("the count stands still", || {
        let before = count.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_secs(3));
        (before > 0 && count.load(Ordering::SeqCst) == before).then_some(before)
    })
}

/// S14: haft stops reading from a client that does not read answers; once the client reads, it gets every answer.
#[test]
#[ignore = "by night: it measures time"]
fn a_client_that_does_not_read_is_not_read_from() {
    let stage = Stage::new("");
    let mut child = stage.command(&["serve"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let written = Arc::new(AtomicUsize::new(0));
    let own = written.clone();
    let writing = std::thread::spawn(move || {
        let arguments = json!({"text": "x".repeat(TEXT)});
        input.write_all(opened().as_bytes()).unwrap();
        for id in 0..CALLS {
            input.write_all(called(id, "guest__echo", &arguments).as_bytes()).unwrap();
            own.fetch_add(1, Ordering::SeqCst);
        }
    });
    let stood = settled(&written);
    let answers = BufReader::new(output).lines().map_while(Result::ok);
    let answers: Vec<Value> = answers
        .map(|line| serde_json::from_str(&line).unwrap())
        .filter(|answer: &Value| !answer["id"].is_null())
        .take(CALLS + 1)
        .collect();
    assert_eq!(answers.len(), CALLS + 1, "everything is answered in the end");
    // On a slow machine calls arrive faster than haft makes them: haft refuses those beyond its limit, and they leave
    // no pending data.
    let refused = answers.iter().filter(|answer| answer["error"].is_object()).count();
    assert!(
        stood.saturating_sub(refused) < CALLS * 2 / 3,
        "{stood} of {CALLS} calls were read, {refused} refused"
    );
    writing.join().unwrap();
    assert_eq!(ended(&mut child).code(), Some(0));
}
