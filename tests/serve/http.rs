//! Any number of clients over HTTP, correct and hostile ones. The tests write raw bytes, so that requests can
//! be invalid in any way.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Child;
use std::sync::mpsc::channel;
use std::time::Duration;

use haft::mcp::server::http::{Admission, Drain, Patience, Readiness, Room, Server, Settings};
use haft::mcp::server::{Publisher, ServerInfo, ToolSnapshot};
use haft::tool::Session;
use serde_json::{Value, json};

use super::eras::{meta, modern};
use super::{Stage, WRITES_HERE};
use crate::common::HANG;
use crate::common::wait::{ended, until, within};

const TOKEN: &str = "a-token-of-the-test-4711";

/// haft, and its HTTP address.
pub(crate) struct Site {
    pub(crate) child: Child,
    address: SocketAddr,
    /// The output of haft before it served.
    pub(crate) said: String,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Site {
    pub(crate) fn start(stage: &Stage, arguments: &[&str]) -> Self {
        let arguments = [&["serve", "--http", "127.0.0.1:0"], arguments].concat();
        Self::begin(stage.command(&arguments).env("HAFT_TEST_TOKEN", TOKEN))
    }

    /// Starts `command`, and waits until it serves.
    #[expect(
        clippy::zombie_processes,
        reason = "it is waited for when this is dropped; where it never serves the test ends"
    )]
    pub(crate) fn begin(command: &mut std::process::Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            while std::io::BufRead::read_line(&mut said, &mut line).is_ok_and(|read| read > 0) {
                let _ = sender.send(std::mem::take(&mut line));
            }
        });
        let mut all = String::new();
        loop {
            let line = receiver.recv_timeout(HANG).unwrap_or_else(|_| panic!("not served: {all}"));
            if let Some(url) = line.trim().strip_prefix("serving MCP at http://") {
                let address = url.strip_suffix("/mcp").unwrap().parse().unwrap();
                return Self { child, address, said: all };
            }
            all += &line;
        }
    }

    pub(crate) fn open(stage: &Stage) -> Self {
        Self::start(stage, &["--token-env", "HAFT_TEST_TOKEN"])
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream
    }

    /// The head of a correct request, with `headers` in place of the usual ones.
    pub(crate) fn head(&self, method: &str, headers: &[(&str, &str)], length: usize) -> String {
        let host = self.address.to_string();
        let bearer = format!("Bearer {TOKEN}");
        let length = length.to_string();
        let usual = [
            ("host", host.as_str()),
            ("authorization", &bearer),
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
            ("content-length", &length),
            ("connection", "close"),
        ];
        let own = |name: &str| headers.iter().any(|(other, _)| *other == name);
        let all =
            usual.iter().filter(|(name, _)| !own(name)).chain(headers).filter(|(_, value)| !value.is_empty());
        let lines: String = all.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{method} /mcp HTTP/1.1\r\n{lines}\r\n")
    }

    pub(crate) fn send(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut stream = self.connect();
        let head = self.head(method, headers, body.len());
        // A server that refuses a body may stop reading it.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        reply(stream)
    }

    pub(crate) fn post(&self, headers: &[(&str, &str)], message: &Value) -> Reply {
        self.send("POST", headers, message.to_string().as_bytes())
    }

    /// A request of 2026-07-28.
    pub(crate) fn modern(&self, headers: &[(&str, &str)], method: &str, params: Value) -> Reply {
        let name = params.get("name").or(params.get("uri"));
        let name = name.and_then(Value::as_str).unwrap_or_default().to_owned();
        let own =
            [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", name.as_str())];
        self.post(&[&own, headers].concat(), &modern(method, 1, params))
    }

    /// Requests a session of `version`.
    pub(crate) fn initialize(&self, version: &str) -> Reply {
        let client = json!({"name": "raw", "version": "0"});
        let open = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
        self.post(&[], &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": open}))
    }

    /// Opens a session and returns its id.
    pub(crate) fn session(&self) -> String {
        let reply = self.initialize("2025-11-25");
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.header("mcp-session-id").unwrap().to_owned()
    }

    /// The status of a list request in a session: 200 if haft serves the session.
    pub(crate) fn list(&self, session: &str) -> u16 {
        let own = [("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")];
        self.post(&own, &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).status
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// The answer, from JSON or from events.
    pub(crate) fn answer(&self) -> Value {
        let data = self.body.lines().filter_map(|line| line.trim().strip_prefix("data: "));
        let texts = data.chain([self.body.trim()]);
        let mut messages = texts.filter_map(|text| serde_json::from_str::<Value>(text).ok());
        messages
            .find(|message| message.get("method").is_none())
            .unwrap_or_else(|| panic!("no answer: {self:?}"))
    }
}

/// All that a server sends until it closes the connection, which it must.
pub(crate) fn reply(mut stream: TcpStream) -> Reply {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert!(!is_timeout(&error), "the server does not hang up: {}", String::from_utf8_lossy(&bytes));
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

/// Whether the read or write reached its time limit.
fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// MC01: haft serves both eras over HTTP: a session, and a request without a session.
#[test]
fn clients_of_both_eras_are_served() {
    let stage = Stage::new("");
    let site = Site::open(&stage);
    let session = site.session();
    let own = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(site.post(&own, &initialized).status, 202);
    let call = json!({"name": "guest__echo", "arguments": {"text": "over http"}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call});
    let answer = site.post(&own, &call).answer();
    assert_eq!(answer["result"]["content"][0]["text"], "over http", "{answer}");
    let modern =
        site.modern(&[], "tools/call", json!({"name": "guest__echo", "arguments": {"text": "modern"}}));
    assert_eq!(modern.answer()["result"]["content"][0]["text"], "modern", "{modern:?}");
    let list = site.modern(&[], "tools/list", json!({})).answer();
    assert!(list["result"]["tools"].as_array().unwrap().len() > 10);
    assert_eq!(site.send("DELETE", &own, b"").status, 204);
    assert_eq!(site.post(&own, &call).status, 404);
}

/// (C3) Batches belong to 2025-03-26: the answers are one list, and a batch of notifications gets 202.
#[test]
fn batches_are_answered_in_the_revision_that_has_them() {
    let stage = Stage::new("");
    let site = Site::open(&stage);
    let opened = site.initialize("2025-03-26");
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let own = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-03-26")];
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(site.post(&own, &json!([note])).status, 202);
    let call = json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call",
        "params": {"name": "guest__echo", "arguments": {"text": "in a batch"}}});
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let unknown = json!({"jsonrpc": "2.0", "id": 2, "method": "no/such"});
    let reply = site.post(&own[..1], &json!([ping, note, call, unknown]));
    let answers: Value = serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"));
    assert_eq!((reply.status, answers.as_array().unwrap().len()), (200, 3), "{answers}");
    assert_eq!(answers[0], json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!(answers[1]["result"]["content"][0]["text"], "in a batch", "{answers}");
    assert_eq!((&answers[2]["id"], &answers[2]["error"]["code"]), (&json!(2), &json!(-32601)));
    for (version, batch) in
        [("2025-06-18", json!([ping])), ("2025-03-26", json!([])), ("2025-03-26", vec![ping; 257].into())]
    {
        let own = [own[0], ("mcp-protocol-version", version)];
        assert_eq!(site.post(&own, &batch).status, 400, "{version}");
    }
}

/// A wrong, missing or misplaced token gets 401, and haft does not read the body.
#[test]
fn whoever_does_not_show_the_token_is_turned_away() {
    let stage = Stage::new("");
    let site = Site::open(&stage);
    for authorization in
        ["", "Bearer", "Bearer wrong", &format!("Basic {TOKEN}"), &format!("Bearer {TOKEN}x")]
    {
        let reply = site.modern(&[("authorization", authorization)], "tools/list", json!({}));
        assert_eq!(reply.status, 401, "{authorization:?}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"haft\""));
        assert!(!reply.body.contains(TOKEN) && !reply.body.contains("tools"), "{reply:?}");
    }
    let mut stream = site.connect();
    let head = site.head("POST", &[("authorization", "Bearer wrong")], 1 << 20);
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(reply(stream).status, 401, "without waiting for the body");
}

/// Without `--token-env` haft makes up a token, prints it once, and requires it.
#[test]
fn a_token_is_made_up_where_none_is_named() {
    let stage = Stage::new("");
    let mut child = stage.command(&["serve", "--http", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let served = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("serving MCP")).unwrap();
    let report = lines.next().unwrap().unwrap();
    let token = report.strip_prefix("clients must send: Authorization: Bearer ").unwrap().to_owned();
    assert_eq!(token.len(), 43, "{report}");
    let address = served.strip_prefix("serving MCP at http://").unwrap().strip_suffix("/mcp").unwrap();
    let site = Site { child, address: address.parse().unwrap(), said: String::new() };
    let own = format!("Bearer {token}");
    assert_eq!(site.modern(&[("authorization", own.as_str())], "tools/list", json!({})).status, 200);
    assert_eq!(site.modern(&[], "tools/list", json!({})).status, 401);
}

/// An address that other machines reach needs a token, and a token must be long enough.
#[test]
fn an_address_of_the_network_needs_a_token_of_its_own() {
    let stage = Stage::new("");
    for (arguments, code, said) in [
        (&["--http", "0.0.0.0:0"][..], 5, "is reachable from other machines"),
        (&["--http", "0.0.0.0:0", "--no-token"], 5, "is reachable from other machines"),
        (&["--http", "127.0.0.1:0", "--token-env", "HAFT_SHORT_TOKEN"], 5, "the token is too short"),
        (&["--http", "127.0.0.1:0", "--token-env", "HAFT_NO_TOKEN"], 5, "`HAFT_NO_TOKEN` is not set"),
        (
            &["--http", "127.0.0.1:0", "--no-token", "--token-env", "HAFT_TEST_TOKEN"],
            2,
            "cannot be used with",
        ),
        (&["--no-token"], 2, "--http"),
    ] {
        let arguments = [&["serve"], arguments].concat();
        let mut command = stage.command(&arguments);
        let output = command.env("HAFT_SHORT_TOKEN", "short").env("HAFT_TEST_TOKEN", TOKEN).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
}

/// A page of another site and a foreign host name get 403.
#[test]
fn foreign_pages_and_names_are_refused() {
    let stage = Stage::new("");
    let site = Site::start(&stage, &["--token-env", "HAFT_TEST_TOKEN", "--allow-host", "tools.test"]);
    for (header, value, expected) in [
        ("origin", "https://evil.test", 403),
        ("origin", "null", 403),
        ("origin", "http://localhost:3000", 200),
        ("host", "evil.test", 403),
        ("host", "127.0.0.1.evil.test", 403),
        ("host", "localhost", 200),
        ("host", "tools.test", 200),
    ] {
        let reply = site.modern(&[(header, value)], "tools/list", json!({}));
        assert_eq!(reply.status, expected, "{header}: {value}: {reply:?}");
    }
}

/// A body of 10 MB, announced or not, gets 413, and haft does not buffer it.
#[test]
fn a_body_that_is_too_large_is_refused() {
    let stage = Stage::new("");
    let site = Site::open(&stage);
    let reply = site.send("POST", &[], &vec![b' '; 10_000_000]);
    assert!([413, 0].contains(&reply.status), "{reply:?}");
    let mut stream = site.connect();
    stream.write_all(site.head("POST", &[], 10_000_000).as_bytes()).unwrap();
    assert_eq!(self::reply(stream).status, 413, "what is announced is refused before it comes");
    let mut stream = site.connect();
    let head = site.head("POST", &[("content-length", ""), ("transfer-encoding", "chunked")], 0);
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    let sent = (0..10).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    let reply = self::reply(stream);
    assert!(reply.status == 413 || sent < 10, "{sent} MiB: {reply:?}");
    assert_eq!(site.modern(&[], "tools/list", json!({})).status, 200);
}

/// haft answers requests that are not MCP with the status of their error.
#[test]
fn what_is_not_mcp_is_refused() {
    let stage = Stage::new("");
    let site = Site::open(&stage);
    assert_eq!(site.send("PUT", &[], b"").status, 405);
    assert_eq!(site.send("POST", &[("content-type", "text/plain")], b"{}").status, 415);
    assert_eq!(site.send("POST", &[("accept", "text/html")], b"{}").status, 406);
    // S11: an invalid message gets a JSON-RPC error; a wrong content type keeps its status.
    for (body, code, id) in [
        ("{", -32700, Value::Null),
        ("[]", -32600, Value::Null),
        (r#"{"id": 7}"#, -32600, json!(7)),
        (r#"{"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": 1}"#, -32602, json!(7)),
    ] {
        let refused = site.send("POST", &[], body.as_bytes());
        assert_eq!(
            (refused.status, refused.header("content-type")),
            (400, Some("application/json")),
            "{body}"
        );
        let answer = refused.answer();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{answer}");
        assert_eq!(site.send("POST", &[("content-type", "text/plain")], body.as_bytes()).status, 415);
    }
    assert_eq!(site.send("DELETE", &[("mcp-session-id", "none")], b"").status, 404);
    assert_eq!(site.send("GET", &[("mcp-session-id", "none")], b"").status, 404);
    assert_eq!(site.send("GET", &[], b"").status, 400, "a stream is of a session");
    assert_eq!(site.send("POST", &[("host", "")], b"{}").status, 400, "HTTP/1.1 has a host");
    let many: Vec<String> = (0..100).map(|n| format!("x-{n}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "1")).collect();
    assert_eq!(site.modern(&many, "tools/list", json!({})).status, 431);
    let long = "x".repeat(100_000);
    assert_eq!(site.modern(&[("x-long", &long)], "tools/list", json!({})).status, 431);
    let mut stream = site.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(reply(stream).status, 401, "who does not show the token learns nothing of paths");
    let mut stream = site.connect();
    let elsewhere = site.head("POST", &[], 0).replacen("/mcp", "/other", 1);
    stream.write_all(elsewhere.as_bytes()).unwrap();
    assert_eq!(reply(stream).status, 404);
}

/// After a signal haft finishes the running call and closes the other connections.
#[test]
fn a_signal_ends_the_server_when_the_calls_are_done() {
    let stage = Stage::new(WRITES_HERE);
    let mut site = Site::open(&stage);
    let session = site.session();
    let mut idle = site.connect();
    let own = [
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
        ("content-length", ""),
    ];
    idle.write_all(site.head("GET", &own, 0).as_bytes()).unwrap();
    let mut stream = site.connect();
    let call = json!({"name": "guest__hold", "arguments": stage.hold("call")});
    let call = modern("tools/call", 1, call).to_string();
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "guest__hold")];
    stream.write_all((site.head("POST", &headers, call.len()) + &call).as_bytes()).unwrap();
    stage.await_held("call");
    let pid = rustix::process::Pid::from_child(&site.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    stage.release();
    let answer = reply(stream);
    assert_eq!(answer.answer()["result"]["content"][0]["text"], "held to the end", "{answer:?}");
    assert_eq!(ended(&mut site.child).code(), Some(0));
}

/// MC09: a client gets an answer whose connection broke again: a session outlives its connections.
#[test]
fn an_answer_that_was_lost_comes_again() {
    let stage = Stage::new(WRITES_HERE);
    let site = Site::open(&stage);
    let session = site.session();
    let own = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    site.post(&own, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let call = json!({"name": "guest__hold", "arguments": stage.hold("call")});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}).to_string();
    let mut stream = site.connect();
    stream.write_all((site.head("POST", &own, call.len()) + &call).as_bytes()).unwrap();
    let mut received = String::new();
    while !received.contains("id: ") || !received.ends_with("\n\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        received.push(char::from(byte[0]));
    }
    drop(stream);
    stage.release();
    let last = received.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let headers = [&own[..], &[("last-event-id", last), ("content-length", "")]].concat();
    let answer = site.send("GET", &headers, b"").answer();
    assert_eq!(answer["result"]["content"][0]["text"], "held to the end", "{answer}");
    assert_eq!(site.send("DELETE", &own, b"").status, 204);
    assert_eq!(site.post(&own, &json!({"jsonrpc": "2.0", "id": 3, "method": "ping"})).status, 404);
}

/// A client that disconnects cancels its calls (2026-07-28: it cannot get the answer later).
#[test]
fn whoever_hangs_up_stops_the_guest() {
    let stage = Stage::new("[plugins.limits]\ntime = \"10m\"\n");
    let site = Site::open(&stage);
    let mut stream = site.connect();
    let call = modern("tools/call", 1, json!({"name": "guest__spin", "arguments": {}})).to_string();
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "guest__spin")];
    stream.write_all((site.head("POST", &headers, call.len()) + &call).as_bytes()).unwrap();
    let log = || String::from_utf8(stage.command(&["log", "--json"]).output().unwrap().stdout).unwrap();
    until("the call is under way", || log().contains("guest__spin"));
    drop(stream);
    until("the call is cancelled", || log().contains("\"cancelled\""));
}

/// RS06: over HTTP the result of a call is the request for approval.
#[test]
fn approvals_work_over_http() {
    let stage = Stage::new("\n[builtins]\nshell_confirm = true\n");
    let site = Site::open(&stage);
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "bash")];
    let call = |more: Value| {
        let mut params = json!({"name": "bash", "arguments": {"command": "echo 4711"}});
        params["_meta"] = meta(&json!({"elicitation": {}}));
        more.as_object().unwrap().iter().for_each(|(key, value)| params[key] = value.clone());
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        site.post(&headers, &message).answer()["result"].take()
    };
    let asked = call(json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let yes = json!({"approve": {"action": "accept", "content": {"approve": true}}});
    let done = call(json!({"requestState": asked["requestState"], "inputResponses": yes}));
    assert_eq!(done["content"][0]["text"], "4711\n", "{done}");
}

/// A server with the tools of the hostile guest, for anybody.
async fn hostile_server(patience: Patience) -> (Publisher, Server) {
    let (grant, limits) = (haft::grant::Grant::none(), haft::limit::Limits::default());
    let toolbox = crate::common::toolbox(&crate::common::hostile(), grant, limits).await;
    let snapshot = ToolSnapshot::new(toolbox, Session::default(), ServerInfo::default(), true);
    let (publisher, snapshots) = Publisher::new(snapshot);
    let settings = Settings {
        address: "127.0.0.1:0".parse().unwrap(),
        admission: Admission::Anybody,
        url: None,
        hosts: Vec::new(),
        room: Room { sessions: 8, connections: 8 },
        patience,
        readiness: tokio::sync::watch::channel(Readiness::default()).1,
        drain: Drain::default(),
    };
    (publisher, Server::bind(snapshots, settings).await.unwrap())
}

/// haft answers a request on a connection that the kernel established before haft stopped listening: the client, a
/// load balancer, could not know whether to send the request again.
#[tokio::test]
async fn a_connection_that_waits_to_be_accepted_is_answered_at_the_end() {
    // Whether haft accepts the connection before it ends is up to chance.
    for _ in 0..4 {
        let (_publisher, server) = hostile_server(Patience::default()).await;
        let mut waiting = TcpStream::connect(server.address()).unwrap();
        let ping = modern("ping", 1, json!({})).to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n\
             content-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: ping\r\n\
             content-length: {}\r\n\r\n",
            ping.len()
        );
        waiting.set_read_timeout(Some(HANG)).unwrap();
        waiting.write_all((head + &ping).as_bytes()).unwrap();
        let stop = tokio_util::sync::CancellationToken::new();
        stop.cancel();
        server.run(stop).await.unwrap();
        let answer = reply(waiting);
        assert_ne!(answer.status, 0, "{answer:?}");
    }
}

/// haft disconnects a client that sends calls and never reads, in bounded time and memory.
#[tokio::test]
async fn whoever_does_not_read_is_hung_up_on() {
    let half_a_second = Duration::from_millis(500);
    let patience = Patience {
        first: half_a_second,
        headers: half_a_second,
        body: half_a_second,
        reading: half_a_second,
    };
    let (_publisher, server) = hostile_server(patience).await;
    let address = server.address();
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = tokio::spawn(server.run(stop.clone()));
    let ended = tokio::task::spawn_blocking(move || {
        let body = modern("tools/call", 1, json!({"name": "flood_result", "arguments": {"bytes": 1 << 20}}));
        let body = body.to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n\
             content-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n\
             mcp-name: flood_result\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        // Answers of 1 MiB each, until the buffers of the system are full.
        let mut reader = TcpStream::connect(address).unwrap();
        reader.set_write_timeout(Some(HANG)).unwrap();
        let hung_up = (0..10_000).find_map(|_| reader.write_all(request.as_bytes()).err());
        let hung_up = hung_up.expect("ten thousand requests are read");
        assert!(!is_timeout(&hung_up), "the server does not hang up");
        // Half a head, and half a body.
        for half in ["POST /mcp HTTP/1.1\r\nhost: loc", request.split_at(request.len() - 10).0] {
            let mut slow = TcpStream::connect(address).unwrap();
            slow.set_read_timeout(Some(HANG)).unwrap();
            slow.write_all(half.as_bytes()).unwrap();
            let answer = reply(slow);
            assert!([0, 408].contains(&answer.status), "{answer:?}");
        }
    });
    within("whoever does not read is hung up on", ended).await.unwrap();
    stop.cancel();
    serving.await.unwrap().unwrap();
}
