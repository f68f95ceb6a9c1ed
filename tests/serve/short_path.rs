//! HTTP requests that the reading thread answers, and those that it starts and other threads finish.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, channel};

use haft::mcp::server::http::{Admission, Drain, Patience, Readiness, Room, Server, Settings};
use haft::mcp::server::{Publisher, ServerInfo, ToolSnapshot, ToolSnapshots, stdio};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::Stage;
use super::http::{Reply, Site};
use crate::common::HANG;
use crate::common::wait::{until, within};

/// Calls a tool in a session.
fn call(site: &Site, session: &str, id: i64, params: &Value) -> Reply {
    let own = [("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")];
    site.post(&own, &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
}

/// The content type of an answer.
fn form(reply: &Reply) -> &str {
    reply.header("content-type").unwrap_or_default()
}

const OBJECT: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// HA2: the form of an answer does not depend on the duration of earlier calls: in a session and without, with a
/// progress token and without.
#[test]
fn an_answer_has_the_same_form_however_long_the_call_before_took() {
    let stage = Stage::new("");
    let site = Site::open(&stage);
    let sessions = ["2025-03-26", "2025-06-18", "2025-11-25"].map(|version| {
        let session = site.initialize(version).header("mcp-session-id").unwrap().to_owned();
        (version, session)
    });
    for ms in [0, 0, 0, 0, 100, 100, 0, 0] {
        let params = json!({"name": "guest__sleep", "arguments": {"ms": ms}});
        for (version, session) in &sessions {
            let own = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", version)];
            let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
            let reply = site.post(&own, &call);
            assert_eq!(form(&reply), EVENTS, "{version}, {ms} ms");
            assert_eq!(reply.answer()["result"]["content"][0]["text"], format!("slept {ms} ms"));
            assert_eq!(
                form(&site.post(&own, &json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"}))),
                OBJECT
            );
        }
        assert_eq!(form(&site.modern(&[], "tools/call", params.clone())), OBJECT, "{ms} ms");
        let mut asking = params;
        asking["_meta"] = super::eras::meta(&json!({}));
        asking["_meta"]["progressToken"] = json!("p");
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "guest__sleep"),
        ];
        let call = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": asking});
        assert_eq!(form(&site.post(&headers, &call)), EVENTS, "{ms} ms");
    }
}

/// C05: haft answers a short call at once, in a session and without.
#[test]
fn short_calls_are_answered_at_once() {
    let stage = Stage::new("");
    let site = Site::open(&stage);
    let session = site.session();
    let echo = |text: &str| json!({"name": "guest__echo", "arguments": {"text": text}});
    let first = call(&site, &session, 7, &echo("same"));
    for _ in 0..3 {
        assert_eq!(call(&site, &session, 7, &echo("same")).answer(), first.answer());
    }
    let modern = site.modern(&[], "tools/call", echo("modern"));
    let answer = modern.answer();
    assert_eq!(answer["result"]["content"][0]["text"], "modern", "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert!(!modern.body.contains("data:"), "{modern:?}");
    // Errors in a head get their usual status.
    for (name, value, status) in [
        ("mcp-name", "guest__other", 400),
        ("mcp-method", "tools/list", 400),
        ("accept", "application/json", 406),
        ("mcp-session-id", "none", 200),
    ] {
        assert_eq!(site.modern(&[(name, value)], "tools/call", echo("x")).status, status, "{name}: {value}");
    }
    assert_eq!(call(&site, "none", 8, &echo("x")).status, 404);
    let log = stage.command(&["log", "--json"]).output().unwrap();
    let noted = String::from_utf8_lossy(&log.stdout).matches("guest__echo").count();
    assert!(noted >= 5, "every call is in the journal: {noted}");
}

/// C05: progress of a call comes before the answer, in the stream of its request, on any thread.
#[test]
fn progress_of_short_calls_is_told_in_their_streams() {
    let stage = Stage::new("");
    let site = Site::open(&stage);
    let session = site.session();
    let params = |token: Value| json!({"name": "guest__flood_host", "arguments": {"calls": 5}, "_meta": {"progressToken": token}});
    for token in 1..=5 {
        let reply = call(&site, &session, token, &params(json!(token)));
        assert_told(&reply, &json!(token));
    }
    assert_told(&call(&site, &session, 1, &params(json!("later"))), &json!("later"));
    // More events than the queue of a client whose call started on another thread.
    let many =
        json!({"name": "guest__flood_host", "arguments": {"calls": 900}, "_meta": {"progressToken": "many"}});
    let reply = call(&site, &session, 2, &many);
    assert_eq!(reply.body.matches("notifications/progress").count(), 900);
    let mut meta = super::eras::meta(&json!({}));
    meta["progressToken"] = json!("m");
    let params = json!({"name": "guest__flood_host", "arguments": {"calls": 5}, "_meta": meta});
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "guest__flood_host"),
    ];
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    assert_told(&site.post(&headers, &call), &json!("m"));
}

fn assert_told(reply: &Reply, token: &Value) {
    let data = reply.body.lines().filter_map(|line| line.trim().strip_prefix("data: "));
    let messages: Vec<Value> = data.filter_map(|text| serde_json::from_str(text).ok()).collect();
    let told = messages.iter().take_while(|message| message["params"]["progressToken"] == *token).count();
    assert_eq!((told, messages.len()), (5, 6), "{reply:?}");
    assert_eq!(messages[5]["result"]["isError"], false, "{reply:?}");
}

/// MC09: a call that is longer than expected is like any other: its answer can be fetched again, a client can cancel
/// it, and it ends with a client without a session.
#[test]
fn a_call_that_was_begun_as_a_short_one_is_as_every_other() {
    let stage = Stage::new("[plugins.limits]\ntime = \"10m\"\n");
    let site = Site::open(&stage);
    let session = site.session();
    let wait = |ms: u64| json!({"name": "guest__wait_cancel", "arguments": {"ms": ms}});
    let asleep = |ms: u64| json!({"name": "guest__sleep", "arguments": {"ms": ms}});
    call(&site, &session, 9, &wait(0));
    let slept = call(&site, &session, 1, &asleep(1));
    assert_eq!(slept.answer()["result"]["content"][0]["text"], "slept 1 ms", "{slept:?}");
    let own = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let mut stream = site.connect();
    call(&site, &session, 9, &asleep(0));
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asleep(700)}).to_string();
    stream.write_all((site.head("POST", &own, body.len()) + &body).as_bytes()).unwrap();
    let mut first = String::new();
    let mut lines = BufReader::new(stream);
    while !first.starts_with("id: ") {
        first.clear();
        assert!(lines.read_line(&mut first).unwrap() > 0, "no event");
    }
    drop(lines);
    let last = first.trim().strip_prefix("id: ").unwrap();
    let headers = [&own[..], &[("last-event-id", last), ("content-length", "")]].concat();
    let answer = site.send("GET", &headers, b"").answer();
    assert_eq!(answer["result"]["content"][0]["text"], "slept 700 ms", "{answer}");
    let mut stream = site.connect();
    call(&site, &session, 9, &wait(0));
    let body =
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": wait(600_000)}).to_string();
    stream.write_all((site.head("POST", &own, body.len()) + &body).as_bytes()).unwrap();
    await_calls(&stage, 1, true);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
    assert_eq!(site.post(&own, &cancel).status, 202);
    await_calls(&stage, 1, false);
    call(&site, &session, 9, &wait(0));
    let body = super::eras::modern("tools/call", 4, wait(600_000)).to_string();
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "guest__wait_cancel"),
    ];
    let mut stream = site.connect();
    stream.write_all((site.head("POST", &headers, body.len()) + &body).as_bytes()).unwrap();
    await_calls(&stage, 1, true);
    drop(stream);
    await_calls(&stage, 2, false);
    // No call was made a second time by the thread that continued it.
    let count = |text: &str| ended(&stage).iter().filter(|line| line.contains(text)).count();
    assert_eq!((count("\"ms\":700"), count("600000")), (1, 2), "{:?}", ended(&stage));
}

/// The journal's lines of ended calls.
fn ended(stage: &Stage) -> Vec<String> {
    let log =
        String::from_utf8(stage.command(&["log", "--json", "-n", "all"]).output().unwrap().stdout).unwrap();
    log.lines().filter(|line| !line.contains("\"started\"")).map(str::to_owned).collect()
}

/// Waits until the journal has `count` calls of ten minutes, running or ended.
fn await_calls(stage: &Stage, count: usize, are_under_way: bool) {
    until("the calls are in the journal", || {
        let log = String::from_utf8(stage.command(&["log", "--json"]).output().unwrap().stdout).unwrap();
        let calls = log.lines().filter(|line| line.contains("600000"));
        calls.filter(|line| line.contains("\"started\"") == are_under_way).count() >= count
    });
}

/// A server without tools, and a runtime with one worker.
fn nothing() -> (Runtime, Publisher, ToolSnapshots) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let snapshot = ToolSnapshot::new(
        haft::Toolbox::default(),
        haft::tool::Session::default(),
        ServerInfo::default(),
        true,
    );
    let (publisher, snapshots) = Publisher::new(snapshot);
    (runtime, publisher, snapshots)
}

/// Keeps the only worker of a runtime busy during `work`, which must not wait for it.
fn beside_busy_worker<T>(runtime: &Runtime, work: impl FnOnce() -> T) -> T {
    let (release, held) = channel::<()>();
    let (begun, begins) = channel();
    let worker = runtime.spawn(async move {
        begun.send(()).unwrap();
        held.recv_timeout(HANG)
    });
    begins.recv_timeout(HANG).unwrap();
    let done = work();
    drop(release);
    assert_eq!(
        runtime.block_on(worker).unwrap(),
        Err(RecvTimeoutError::Disconnected),
        "it waited for the worker"
    );
    done
}

fn initialize() -> Value {
    let client = json!({"name": "raw", "version": "0"});
    let open = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": open})
}

/// WA03: the reading thread of the standard streams answers a ping, also if all other threads are busy.
#[test]
fn a_ping_on_standard_streams_waits_for_no_other_thread() {
    let (runtime, _publisher, snapshots) = nothing();
    let [(input, mut to_haft), (from_haft, output)] = [std::io::pipe().unwrap(), std::io::pipe().unwrap()];
    let (input, output) = (File::from(OwnedFd::from(input)), File::from(OwnedFd::from(output)));
    let stop = CancellationToken::new();
    let serving = runtime.spawn(stdio::serve(snapshots, input, output, stop.clone()));
    let mut lines = BufReader::new(from_haft).lines();
    writeln!(to_haft, "{}", initialize()).unwrap();
    assert!(lines.next().unwrap().unwrap().contains("2025-11-25"));
    let pong = beside_busy_worker(&runtime, || {
        writeln!(to_haft, "{}", json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).unwrap();
        lines.next().unwrap().unwrap()
    });
    assert_eq!(
        serde_json::from_str::<Value>(&pong).unwrap(),
        json!({"jsonrpc": "2.0", "id": 2, "result": {}})
    );
    stop.cancel();
    drop(to_haft);
    runtime.block_on(serving).unwrap().unwrap();
}

/// WA03: the reading thread of an HTTP connection answers a ping, also if all other threads are busy.
#[test]
fn a_ping_over_http_waits_for_no_other_thread() {
    let (runtime, _publisher, snapshots) = nothing();
    let (address, room) = ("127.0.0.1:0".parse().unwrap(), Room { sessions: 8, connections: 8 });
    let settings = Settings {
        address,
        admission: Admission::Anybody,
        url: None,
        hosts: Vec::new(),
        room,
        patience: Patience::default(),
        readiness: tokio::sync::watch::channel(Readiness::default()).1,
        drain: Drain::default(),
    };
    let server = runtime.block_on(Server::bind(snapshots, settings)).unwrap();
    let address = server.address();
    let stop = CancellationToken::new();
    let serving = runtime.spawn(server.run(stop.clone()));
    let mut stream = TcpStream::connect(address).unwrap();
    let mut received = BufReader::new(stream.try_clone().unwrap());
    let mut send = |session: &str, message: Value| {
        let body = message.to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n\
             content-type: application/json\r\n{session}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
    };
    send("", initialize());
    let head: Vec<String> =
        received.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
    let value = |name: &str| head.iter().find(|line| line.starts_with(name)).unwrap();
    let (session, length) = (value("mcp-session-id"), value("content-length: "));
    let length = length.trim_start_matches("content-length: ").parse().unwrap();
    received.read_exact(&mut vec![0; length]).unwrap();
    let session = format!("{session}\r\nmcp-protocol-version: 2025-11-25\r\n");
    let status = beside_busy_worker(&runtime, || {
        send(&session, json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
        let mut status = String::new();
        received.read_line(&mut status).unwrap();
        status
    });
    assert_eq!(status, "HTTP/1.1 200 OK\r\n");
    stop.cancel();
    runtime.block_on(within("the server ends", serving)).unwrap().unwrap();
}
