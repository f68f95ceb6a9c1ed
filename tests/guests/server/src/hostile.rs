//! Answers that are invalid for every client.

use std::time::Duration;

use serde_json::{Value, json};
use wasip2::http::types::{ErrorCode, ResponseOutparam};

use crate::http::{self, Answer};

/// Bytes of a piece of an endless body.
const PIECE: usize = 4096;

/// Answers a call in the way that is called `how`.
pub(crate) fn misbehave(how: &str, id: &Value, out: ResponseOutparam) {
    let result = json!({ "content": [{ "type": "text", "text": "late" }] });
    let answered = json!({ "id": id, "result": result });
    match how {
        "garbage" => http::whole(out, 200, "application/json", b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"res"),
        "html" => http::whole(out, 200, "text/html", b"<h1>Hello</h1>"),
        "status" => http::whole(out, 500, "text/plain", b"Internal Server Error"),
        "other id" => http::message(out, false, None, &json!({ "id": 4711, "result": result })),
        "no result" => http::message(out, false, None, &json!({ "id": id })),
        "wrong data" => {
            let wrong = json!({ "content": [], "structuredContent": { "sum": "text" } });
            http::message(out, false, None, &json!({ "id": id, "result": wrong }));
        }
        "question" => {
            let asks = json!({ "resultType": "input_required", "inputRequests": {} });
            http::message(out, false, None, &json!({ "id": id, "result": asks }));
        }
        "error" => ResponseOutparam::set(out, Err(ErrorCode::ConnectionTerminated)),
        "nothing" => {}
        "never" => std::thread::sleep(Duration::from_hours(1)),
        "spin" => spin(),
        "trap" => panic!("told to"),
        "memory" => drop(vec![1_u8; 1 << 30]),
        "headers" => headers(out),
        _ => stream(how, &answered, out),
    }
}

#[expect(clippy::infinite_loop, reason = "what it is for")]
fn spin() {
    let mut number = 0_u64;
    loop {
        number = std::hint::black_box(number.wrapping_add(1));
    }
}

/// Headers of 10 MB.
fn headers(out: ResponseOutparam) {
    let value = vec![b'x'; 10_000];
    let names: Vec<String> = (0..1000).map(|number| format!("x-{number}")).collect();
    let headers: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), value.as_slice())).collect();
    if let Some(answer) = Answer::begin(out, 200, &headers) {
        answer.finish();
    }
}

/// Answers in a stream.
fn stream(how: &str, answered: &Value, out: ResponseOutparam) {
    if how == "body without end" {
        let Some(answer) = Answer::begin(out, 200, &[("content-type", b"application/json")]) else { return };
        while answer.write(&[b' '; PIECE]) {}
        return;
    }
    let Some(answer) = Answer::events(out) else { return };
    let progress =
        json!({ "method": "notifications/progress", "params": { "progressToken": "x", "progress": 1 } });
    match how {
        "events without end" => while answer.event(&progress) {},
        "event without end" => while answer.write(&[b' '; PIECE]) {},
        "unfinished" => {
            answer.event(&progress);
            answer.finish();
        }
        "left open" => {
            answer.event(&progress);
            // As if the guest went on with it later.
            std::mem::forget(answer);
        }
        "sampling" => {
            answer.event(&json!({ "id": 1, "method": "sampling/createMessage", "params": {} }));
            std::thread::sleep(Duration::from_hours(1));
        }
        "goes on" => {
            answer.event(answered);
            std::thread::sleep(Duration::from_hours(1));
        }
        "traps after" => {
            answer.event(answered);
            panic!("told to");
        }
        _ => answer.finish(),
    }
}
