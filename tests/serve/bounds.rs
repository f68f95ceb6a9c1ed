//! Bounds of one client on standard input and output: too many requests, invalid JSON, and requests right before
//! the client closes its input.

use serde_json::{Map, Value, json};

use super::Stage;
use super::peer::{Peer, text};

pub(crate) fn opened() -> String {
    let client = json!({"name": "raw", "version": "0"});
    let open = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": open}))
}

pub(crate) fn called(id: usize, tool: &str, arguments: &Value) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
}

/// S15: haft refuses a message that would block all clients, by its id, before it parses the whole message.
#[test]
fn one_message_stalls_nobody() {
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    let keys: Map<String, Value> = (0..500_000).map(|n| (format!("key{n}"), json!(n))).collect();
    let id = peer.ask("tools/call", json!({"name": "guest__echo", "arguments": keys}));
    let answer = peer.answer(id);
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("more than 100000 values"), "{answer}");
    let some: Map<String, Value> = (0..20_000).map(|n| (format!("key{n}"), json!(n))).collect();
    let other = peer.request("ping", json!({"_meta": &some}));
    assert!(other["error"]["message"].as_str().unwrap().contains("more than 10000 values"), "{other}");
    let batch: Vec<Value> = (0..1000).map(|n| json!({"jsonrpc": "2.0", "id": n, "method": "ping"})).collect();
    peer.send(&json!(batch));
    let refused = peer.await_one(|message| message.get("id").is_some_and(Value::is_null));
    assert_eq!(refused["error"]["message"], "a batch of more than 256 messages");
    peer.send(&json!([{"jsonrpc": "2.0", "id": "one", "method": "ping", "params": {"_meta": &some}}]));
    let refused = peer.answer("one");
    assert!(refused["error"]["message"].as_str().unwrap().contains("more than 10000 values"), "{refused}");
    let large =
        json!({"name": "guest__echo", "arguments": {"text": "small"}, "_meta": {"a": "x".repeat(10 << 20)}});
    assert_eq!(text(&peer.request("tools/call", large)["result"]), "small");
    assert_eq!(peer.hang_up(), Some(0));
}

/// S15: haft refuses a request whose id belongs to a pending request; the first request runs once.
#[test]
fn an_id_is_that_of_one_request() {
    let stage = Stage::new("\n[sandbox]\nworkspace = \".\"\n");
    let mut peer = Peer::open(&stage);
    let command = json!({"command": "until [ -e refused ]; do sleep 0.01; done; echo answered >> ran"});
    for _ in 0..3 {
        peer.write(&called(7, "bash", &command));
    }
    for _ in 0..2 {
        let refused = peer.await_one(|message| message.get("id").is_some_and(Value::is_null));
        let report = "the id 7 belongs to a request that is not answered yet";
        assert_eq!(
            (&refused["error"]["code"], &refused["error"]["message"]),
            (&json!(-32600), &json!(report))
        );
    }
    std::fs::write(stage.path("refused"), "").unwrap();
    assert!(peer.answer(7)["result"].is_object());
    let ran = peer.request("tools/call", json!({"name": "bash", "arguments": {"command": "cat ran"}}));
    assert_eq!(text(&ran["result"]).matches("answered").count(), 1, "{ran}");
}

/// C18: haft answers invalid JSON with an error that has the message's id if the id is readable.
#[test]
fn what_is_no_json_is_answered() {
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    let deep =
        format!("{{\"id\":\"deep\",\"method\":\"ping\",\"params\":{}{}}}", "[".repeat(500), "]".repeat(500));
    for (line, id) in [
        (deep.into_bytes(), json!("deep")),
        (b"{\"a\":1e400,\"id\":\"far\",\"method\":\"ping\"}".to_vec(), json!("far")),
        (b"{\"id\":\"cut\",\"method\":\"pi".to_vec(), json!("cut")),
        (b"hello".to_vec(), Value::Null),
        (b"[{\"id\":1},".to_vec(), Value::Null),
    ] {
        peer.write_bytes(&[line.as_slice(), b"\n"].concat());
        let answer = peer.message().unwrap();
        assert_eq!((&answer["error"]["code"], answer.get("id")), (&json!(-32700), Some(&id)), "{answer}");
    }
    // A lone surrogate or an invalid byte is not an error: haft replaces it.
    peer.write_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":\"lone\",\"method\":\"ping\",\"a\":\"\\ud800 \xff\"}\n");
    assert_eq!(peer.answer("lone")["result"], json!({}));
    assert_eq!(peer.request("ping", json!({}))["result"], json!({}));
}

/// C06: haft answers a line that is too long by its id, at the line's start or end, and reads the next line.
#[test]
fn a_line_that_is_too_long_is_answered_by_its_id() {
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    let long = "x".repeat(17 << 20);
    peer.write(&format!("{{\"jsonrpc\":\"2.0\",\"id\":\"first\",\"method\":\"ping\",\"a\":\"{long}\"}}\n"));
    peer.write(&format!("{{\"a\":{{\"id\":1,\"b\":\"{long}\"}},\"method\":\"ping\",\"id\":\"last\"}}\n"));
    for id in ["first", "last"] {
        let answer = peer.answer(id);
        assert_eq!(answer["error"]["message"], "a message longer than 16 MiB", "{answer}");
    }
    assert_eq!(peer.request("ping", json!({}))["result"], json!({}));
}

/// C04: a call that does not end in time after its client hung up gets an error, and haft ends.
#[test]
fn what_takes_too_long_is_told_that_haft_ends() {
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    let id = peer.ask("tools/call", json!({"name": "bash", "arguments": {"command": "sleep 4711"}}));
    assert_eq!(peer.hang_up(), Some(0));
    let answer = peer.answer(id);
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("haft is shutting down"), "{answer}");
}
