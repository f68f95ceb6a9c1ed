//! Many concurrent calls of two callers: no answer, right or journal line belongs to the other caller.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::super::eras::modern;
use super::super::http::Site;
use super::{ADA, BOB, bearer, journal, journal_with, serve, two};

/// Calls of both callers together.
const CALLS: usize = 10_000;

/// Connections of each caller.
const CONNECTIONS: usize = 4;

/// Sends a call on a connection that stays open, and reads the whole answer.
fn call(site: &Site, stream: &mut TcpStream, token: &str, (tool, arguments): (&str, &Value)) -> String {
    let body = modern("tools/call", 1, json!({"name": tool, "arguments": arguments})).to_string();
    let authorization = bearer(token);
    let own = [
        ("authorization", authorization.as_str()),
        ("connection", "keep-alive"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", tool),
    ];
    let head = site.head("POST", &own, body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    let (mut received, mut buffer) = (Vec::new(), [0; 16 << 10]);
    while !is_whole(&received) {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "hung up: {}", String::from_utf8_lossy(&received));
        received.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8(received).unwrap()
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    match length {
        Some(length) => body.len() >= length,
        None => body.ends_with("0\r\n\r\n"),
    }
}

/// The calls of one connection: every answer has the caller's own text and variables.
fn work(site: &Site, (name, token): (&str, &str), (own, other): (&str, &str), connection: usize) {
    let mut stream = site.connect();
    for number in 0..CALLS / 2 / CONNECTIONS {
        if number % 2 == 0 {
            let text = format!("{name}-{connection}-{number}");
            let answer = call(site, &mut stream, token, ("guest__echo", &json!({"text": text})));
            assert!(answer.contains(&format!("\"{text}\"")), "{answer}");
        } else {
            let answer = call(site, &mut stream, token, ("guest__env", &json!({})));
            assert!(answer.contains(own) && !answer.contains(other), "{name}: {answer}");
        }
    }
}

#[test]
fn ten_thousand_calls_of_two_callers_do_not_cross() {
    let narrow = |name: &str| format!("tools = [\"guest__e*\"]\n[serve.callers.grant]\nenv = [\"{name}\"]\n");
    let (stage, _) = two(&narrow("ONE"), &narrow("TWO"));
    let site = serve(&stage);
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let site = &site;
            scope.spawn(move || work(site, ("ada", ADA), ("ONE", "TWO"), connection));
            scope.spawn(move || work(site, ("bob", BOB), ("TWO", "ONE"), connection));
        }
    });
    for caller in ["ada", "bob"] {
        journal_with(&stage, caller, CALLS / 2);
    }
    let mut calls: HashMap<String, (String, Value)> = HashMap::new();
    for line in journal(&stage) {
        let (id, caller) = (line["id"].as_str().unwrap(), line["caller"].as_str().unwrap());
        let text = line["arguments"]["text"].as_str().unwrap_or(caller);
        assert!(text.starts_with(caller), "{line}");
        calls.insert(id.to_owned(), (caller.to_owned(), line["grant"]["env"].clone()));
    }
    for (name, variable) in [("ada", "ONE"), ("bob", "TWO")] {
        let own: Vec<_> = calls.values().filter(|(caller, _)| caller == name).collect();
        assert_eq!(own.len(), CALLS / 2, "{name}");
        assert!(own.iter().all(|(_, env)| *env == json!([variable])), "{name}");
    }
}
