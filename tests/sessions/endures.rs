//! A long task whose model fails in thirty ways and whose process is killed repeatedly: every call is made, none
//! twice. `HAFT_TEST_KILLS` sets the number of kills; `.ci/steps/sessions` sets 200, for 300 turns and 50 kills.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft::agent::UNKNOWN;
use serde_json::{Value, json};

use super::Place;
use super::kill::{assert_run_once, kills, random};
use super::model::{Model, Says, answers};
use crate::common::wait::until;

/// One of this number of requests fails.
const EVERY: usize = 5;

/// A response with this status.
fn status(code: u16, more: &str, body: &str) -> String {
    format!("HTTP/1.1 {code} X\r\nconnection: close\r\ncontent-length: {}\r\n{more}\r\n{body}", body.len())
}

/// A success with this media type, whose end is the end of the connection.
fn success(media_type: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {media_type}\r\n\r\n{body}")
}

/// A stream with `text` and the reason `finish`.
fn stream(text: &str, finish: &Value) -> String {
    let chunk =
        |delta: Value, finish: &Value| json!({ "choices": [{ "delta": delta, "finish_reason": finish }] });
    let (said, end) = (chunk(json!({ "content": text }), &Value::Null), chunk(json!({}), finish));
    success("text/event-stream", &format!("data: {said}\n\ndata: {end}\n\ndata: [DONE]\n\n"))
}

/// A stream of these frames alone.
fn frames(frames: &[Value]) -> String {
    success("text/event-stream", &frames.iter().map(|frame| format!("data: {frame}\n\n")).collect::<String>())
}

/// Thirty ways to fail.
fn failures() -> Vec<String> {
    let error = |code: Value, message: &str| json!({ "error": { "code": code, "message": message } });
    let call = json!({ "choices": [{ "delta": { "tool_calls": [{ "index": 0, "id": "x",
        "function": { "name": "bash", "arguments": "{\"command\":\"echo cut >> log" } }] } }] });
    let begun = json!({ "choices": [{ "delta": { "content": "I beg" } }] });
    vec![
        status(408, "", ""),
        status(429, "retry-after-ms: 20\r\n", ""),
        status(429, "", &error(json!("rate_limit_exceeded"), "Please try again in 30ms.").to_string()),
        status(400, "", &error(json!("ThrottlingException"), "Too many tokens, please wait.").to_string()),
        status(500, "", &error(json!("server_error"), "sorry").to_string()),
        status(502, "", "<h1>502</h1>"),
        status(503, "", ""),
        status(504, "", ""),
        status(529, "", &error(Value::Null, "Overloaded").to_string()),
        status(
            200,
            "content-type: application/json\r\n",
            &error(json!(429), "Too many tokens, please wait.").to_string(),
        ),
        status(
            200,
            "content-type: application/json\r\n",
            &error(json!(502), "Provider returned error").to_string(),
        ),
        status(200, "content-type: application/json\r\n", "{\"choices\":[]}"),
        status(200, "", ""),
        success("text/event-stream", ""),
        success("text/html", "<html>welcome</html>"),
        success("application/json", "{\"choices\":[{\"mess"),
        success("text/event-stream", "data: {cut\n\n"),
        success("text/event-stream", "\u{1f}\u{fffd}\n\n"),
        frames(&[error(json!("rate_limit_exceeded"), "try again in 20ms")]),
        frames(&[begun.clone(), error(json!("server_error"), "late")]),
        frames(&[begun]),
        frames(&[call]),
        frames(&[json!([1])]),
        stream("Half an answ", &json!("error")),
        stream("Half an answ", &json!("insufficient_system_resource")),
        stream("Half an answ", &json!("tool_calls")),
        stream("Half an answ", &json!("something_new")),
        stream("Half an answ", &Value::Null),
        stream("\n\n", &json!("stop")),
        stream("<think>hm", &json!("stop")),
    ]
}

/// The next call: appends the first missing item, and reads the log if the outcome of an earlier call is unknown.
fn script(messages: &[Value], turns: usize) -> Says {
    let mut known = vec![""; turns + 1];
    for (_, arguments, answer) in answers(messages) {
        let command = arguments["command"].as_str().unwrap_or_default().to_owned();
        for (item, state) in known.iter_mut().enumerate().skip(1) {
            if command.ends_with(&format!("echo appended {item}")) {
                let is_done = answer.lines().any(|line| line == format!("appended {item}"));
                *state = if is_done {
                    "done"
                } else if answer.contains(UNKNOWN) {
                    "unknown"
                } else {
                    ""
                };
            } else if *state == "unknown" && answer.contains("looked") {
                *state = if answer.lines().any(|line| line == item.to_string()) { "done" } else { "" };
            }
        }
    }
    match (1..=turns).find(|item| known.get(*item) != Some(&"done")) {
        None => Says::text("all is appended"),
        Some(item) if known.get(item) == Some(&"unknown") => {
            Says::call("bash", json!({ "command": "cat log; echo looked" }))
        }
        Some(item) => {
            Says::call("bash", json!({ "command": format!("echo {item} >> log; echo appended {item}") }))
        }
    }
}

/// A model with this script that fails regularly, in each way in turn.
fn failing(turns: usize) -> Model {
    let (failures, asked) = (failures(), AtomicUsize::new(0));
    assert_eq!(failures.len(), 30);
    Model::start(move |messages| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let raw =
            (number % EVERY == EVERY - 1).then(|| failures.get(number / EVERY % failures.len()).cloned());
        Says { raw: raw.flatten(), ..script(messages, turns) }
    })
}

/// (PL20): a run with failures and kills makes every call once. With 200 kills it has enough turns for all thirty
/// failures.
#[test]
fn a_long_task_outlasts_failures_and_kills() {
    let is_long = kills() >= 200;
    let (turns, kills) = if is_long { (300, 50) } else { (30, 3) };
    let place = Place::new(failing(turns), "[agent]\nmax_turns = 1000\n");
    place.home.write("log", "");
    let lines = || place.read("log").lines().count();
    let (mut killed, mut seed) = (0, 0);
    while killed < kills && lines() < turns {
        seed += 1;
        let target = lines() + usize::try_from(random(seed) % 8).unwrap();
        let arguments: &[&str] =
            if place.files().is_empty() { &["run", "append"] } else { &["run", "--resume"] };
        let mut child = place.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut is_over = false;
        until("haft ends or is killed", || {
            is_over = child.try_wait().unwrap().is_some();
            is_over || lines() > target
        });
        child.kill().unwrap();
        child.wait().unwrap();
        killed += usize::from(!is_over);
    }
    let answer = place.haft(&["run", "--resume"]);
    assert_eq!((answer.stdout.as_str(), answer.code), ("all is appended\n", 0), "{}", answer.stderr);
    place.model.assert_content();
    let expected: Vec<_> = (1..=turns).map(|item| item.to_string()).collect();
    assert_eq!(place.read("log").lines().collect::<Vec<_>>(), expected);
    assert_run_once(&place);
    eprintln!("{turns} turns, killed {killed} times");
}
