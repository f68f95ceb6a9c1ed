//! Many clients over HTTP, and many connections without a token: sessions in use stay, and refused clients get the
//! time to retry.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::Stage;
use super::http::{Site, reply};
use crate::common::wait::{until, until_some};

/// Whether the other side has closed the connection.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match stream.read(&mut [0; 1]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// A program with a limit of 800 connections.
pub(crate) const CROWDED: &str = "\n[serve]\nmax_connections = 800\n";

/// Opens 400 connections that send nothing, half a request or no valid token, while haft serves a client.
pub(crate) fn crowd(site: &Site) -> Vec<TcpStream> {
    let is_served = || site.modern(&[], "tools/list", json!({})).status == 200;
    let silent = |count: usize| {
        let mut stream = site.connect();
        match count % 3 {
            0 => {}
            1 => stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: loc").unwrap(),
            _ => {
                let head = site.head("POST", &[("authorization", "Bearer wrong"), ("connection", "")], 0);
                stream.write_all(head.as_bytes()).unwrap();
            }
        }
        assert!(!count.is_multiple_of(50) || is_served(), "after {count}");
        stream
    };
    let silent = (0..400).map(silent).collect();
    assert!(is_served());
    silent
}

/// S11: connections that send nothing or half a request block no client.
#[test]
fn connections_without_a_token_give_way() {
    let stage = Stage::new(CROWDED);
    let site = Site::open(&stage);
    let silent = crowd(&site);
    until("an eighth of the places is theirs", || {
        silent.iter().filter(|stream| is_closed(stream)).count() >= 250
    });
}

/// S11: a body that arrives byte by byte blocks only its own sender, for a limited time.
#[test]
fn a_slow_body_keeps_nobody_out() {
    let stage = Stage::new("\n[serve]\nmax_connections = 64\n");
    let site = Site::start(&stage, &["--no-token"]);
    let slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = site.connect();
            stream.write_all(site.head("POST", &[], 1000).as_bytes()).unwrap();
            stream.write_all(b"{").unwrap();
            stream
        })
        .collect();
    assert_eq!(site.modern(&[], "tools/list", json!({})).status, 200);
    drop(slow);
}

/// C05: no client loses its session to another; a client beyond the limit gets the time to retry.
#[test]
fn a_full_house_turns_nobody_out() {
    let stage = Stage::new("\n[serve]\nmax_sessions = 4\n");
    let site = Site::open(&stage);
    let served: Vec<String> = (0..4).map(|_| site.session()).collect();
    for _ in 0..8 {
        let refused = site.initialize("2025-11-25");
        assert_eq!(refused.status, 503, "{refused:?}");
        assert!(refused.header("retry-after").unwrap().parse::<u32>().is_ok(), "{refused:?}");
    }
    assert!(served.iter().all(|session| site.list(session) == 200));
    assert_eq!(site.modern(&[], "tools/list", json!({})).status, 200, "who needs no session needs no room");
    assert_eq!(site.send("DELETE", &[("mcp-session-id", &served[0])], b"").status, 204);
    assert_eq!(site.list(&site.session()), 200);
    assert!(served[1..].iter().all(|session| site.list(session) == 200));
}

/// C05: haft serves a thousand clients with a session each, with less than 96 MiB of additional memory.
#[test]
fn a_thousand_sessions_are_served() {
    let stage = Stage::new("");
    let site = Site::open(&stage);
    site.session();
    let before = resident(site.child.id());
    let sessions: Vec<String> = (0..1000).map(|_| site.session()).collect();
    for session in &sessions {
        let own = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(site.post(&own, &initialized).status, 202);
    }
    let grown = resident(site.child.id()).saturating_sub(before);
    eprintln!("1000 sessions: {} KiB more", grown >> 10);
    assert!(grown < 96 << 20, "{} MiB", grown >> 20);
    assert!(sessions.iter().all(|session| site.list(session) == 200));
}

/// C05: haft serves 200 concurrent clients, each with a session, an open stream and a call.
#[test]
fn two_hundred_clients_at_once_are_served() {
    let stage = Stage::new("");
    let site = Site::open(&stage);
    site.modern(&[], "tools/call", json!({"name": "guest__echo", "arguments": {"text": "first"}}));
    let client = |number: usize| {
        let session = site.session();
        let own = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
        site.post(&own, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let mut stream = site.connect();
        let head = site.head("GET", &[&own[..], &[("content-length", "")]].concat(), 0);
        stream.write_all(head.as_bytes()).unwrap();
        let text = number.to_string();
        let call = json!({"name": "guest__echo", "arguments": {"text": text}});
        let answer =
            site.post(&own, &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}));
        assert_eq!(answer.answer()["result"]["content"][0]["text"], Value::from(text), "{answer:?}");
        (session, stream)
    };
    let clients: Vec<_> = std::thread::scope(|scope| {
        let client = &client;
        let tasks: Vec<_> = (0..200).map(|number| scope.spawn(move || client(number))).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    assert!(clients.iter().all(|(session, stream)| site.list(session) == 200 && !is_closed(stream)));
}

/// C05: a client with an open stream keeps its connection; a client beyond the limit gets the time to retry.
#[test]
fn a_full_house_of_connections_says_so() {
    let stage = Stage::new("\n[serve]\nmax_connections = 4\n");
    let site = Site::open(&stage);
    let session = site.session();
    let own = [
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
        ("content-length", ""),
    ];
    // The connection that opened the session counts until the server has noticed that it is closed.
    let opened = || {
        let mut stream = site.connect();
        stream.write_all(site.head("GET", &own, 0).as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (&status == b"HTTP/1.1 200").then_some(stream)
    };
    let streams = [(); 2].map(|()| until_some("a stream is opened", opened));
    let refused = site.modern(&[], "tools/list", json!({}));
    assert_eq!((refused.status, refused.header("connection")), (503, Some("close")), "{refused:?}");
    assert!(refused.header("retry-after").is_some());
    drop(streams);
    until("there is room", || site.modern(&[], "tools/list", json!({})).status == 200);
    let mut stream = site.connect();
    stream.write_all(site.head("GET", &[("authorization", "")], 0).as_bytes()).unwrap();
    assert_eq!(reply(stream).status, 401);
}

/// The resident memory of a process, in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}
