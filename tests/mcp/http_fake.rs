//! An MCP server over streamable HTTP, on loopback, with the failures of published servers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The behaviour of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Like {
    /// Answers with JSON, in a session.
    Json,
    /// Answers every request with a stream of events, in a session.
    Events,
    /// Answers in the stateless era.
    Stateless,
    /// Requires the right token.
    Guarded,
    /// Redirects every request to another server.
    Redirecting(u16),
    /// The stream of a call breaks off before the answer.
    Cut,
    /// The stream of a call breaks off, and can be resumed.
    Resumable,
    /// Forgets a session after its first call.
    Forgetful,
    /// Answers with a page, not with MCP.
    Page,
    /// Answers a call with a status, the rest of a head and a body. `ID` in the body is the id of the call.
    Answering(&'static str, &'static str, &'static str),
    /// Answers every request with a stream; the answer follows these events. `TOKEN` in the events of a call is the
    /// call's progress token.
    After(&'static str),
    /// Redirects a request at `/mcp` to another of its own paths.
    Moved(u16),
    /// Forgets a session after its first call, and says so with this status and this text.
    Losing(&'static str, &'static str),
    /// Answers in the stateless era, and ends each subscription to changes at once.
    Subscribed,
    /// Answers the requests for the session's stream with these statuses, in order: a stream that ends, or a failure.
    Streaming(&'static [&'static str]),
    /// Forgets a session after its first call, and describes its tool differently in each session.
    Redeployed,
    /// Supports the transport of 2024-11-05 alone.
    Old,
}

/// A request: method and path, headers with names in lower case, body.
pub(super) type Request = (String, BTreeMap<String, String>, String);

/// The server; it ends when dropped.
pub(crate) struct HttpFake {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    like: Like,
    requests: Mutex<Vec<Request>>,
    sessions: Mutex<u32>,
}

impl HttpFake {
    pub(crate) async fn start(like: Like) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State { like, requests: Mutex::default(), sessions: Mutex::new(0) });
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Self { address, state, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().unwrap().clone()
    }

    /// The number of requests with the JSON-RPC method `method`.
    pub(crate) fn count(&self, method: &str) -> usize {
        let is = |(_, _, body): &&Request| {
            serde_json::from_str::<Value>(body).is_ok_and(|message| message["method"] == method)
        };
        self.requests().iter().filter(is).count()
    }
}

impl Drop for HttpFake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let request = read(&mut stream).await?;
        state.requests.lock().unwrap().push(request.clone());
        let answer = state.answer(&request);
        stream.write_all(answer.as_bytes()).await.ok()?;
        if answer.contains("connection: close") {
            return None;
        }
    }
}

pub(super) async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let first = line.split(" HTTP/").next()?.to_owned();
    Some((first, headers, String::from_utf8(body).ok()?))
}

pub(super) fn response(status: &str, more: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{more}content-length: {}\r\n\r\n{body}", body.len())
}

pub(super) fn json_response(more: &str, body: &Value) -> String {
    response("200 OK", &format!("content-type: application/json\r\n{more}"), &body.to_string())
}

/// A stream of `events` that ends after them.
fn stream(more: &str, events: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{more}connection: close\r\n\r\n{events}")
}

fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

impl State {
    fn answer(&self, (first, headers, body): &Request) -> String {
        match self.like {
            Like::Redirecting(status) => {
                return response(
                    &format!("{status} Elsewhere"),
                    "location: http://127.0.0.1:1/else?key=1\r\n",
                    "",
                );
            }
            Like::Moved(status) if first.ends_with(" /mcp") => {
                return response(&format!("{status} Moved"), "location: /v1/mcp?key=1\r\n", "");
            }
            Like::Old if first.starts_with("GET") => {
                return stream("", "event: endpoint\ndata: /messages?session=1\n\n");
            }
            Like::Old => return response("405 Method Not Allowed", "", ""),
            Like::Page => return response("200 OK", "content-type: text/html\r\n", "<html>"),
            Like::Guarded if headers.get("authorization").map(String::as_str) != Some("Bearer right") => {
                return response("401 Unauthorized", "www-authenticate: Bearer realm=\"x\"\r\n", "");
            }
            _ => {}
        }
        if first.starts_with("GET") {
            return self.resume(headers);
        }
        if first.starts_with("DELETE") {
            return response("200 OK", "", "");
        }
        let message: Value = serde_json::from_str(body).unwrap();
        let Some(id) = message.get("id").filter(|_| message.get("method").is_some()) else {
            return response("202 Accepted", "", "");
        };
        self.request(&message, id, headers)
    }

    /// The rest of a stream that broke off.
    fn resume(&self, headers: &BTreeMap<String, String>) -> String {
        match headers.get("last-event-id") {
            Some(id) if self.like == Like::Resumable => {
                let number: i64 = id.parse().unwrap();
                stream("", &event(&result(&json!(number), &text("resumed"))))
            }
            None if let Like::Streaming(statuses) = self.like => {
                let asked = self.requests.lock().unwrap();
                let asked = asked.iter().filter(|(first, ..)| first.starts_with("GET")).count();
                match statuses.get(asked - 1) {
                    Some(&"200 OK") => stream("", ""),
                    status => response(status.unwrap_or(&"405 Method Not Allowed"), "", ""),
                }
            }
            _ => response("405 Method Not Allowed", "", ""),
        }
    }

    fn request(&self, message: &Value, id: &Value, headers: &BTreeMap<String, String>) -> String {
        let stateless = matches!(self.like, Like::Stateless | Like::Subscribed);
        let session = *self.sessions.lock().unwrap();
        match message["method"].as_str().unwrap() {
            "server/discover" if stateless => json_response("", &result(id, &self.discovered())),
            "initialize" if !stateless => {
                *self.sessions.lock().unwrap() += 1;
                let own = format!("mcp-session-id: session-{}\r\n", session + 1);
                json_response(
                    &own,
                    &result(
                        id,
                        &json!({
                            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                            "serverInfo": { "name": "fake", "version": "1" },
                        }),
                    ),
                )
            }
            _ if stateless != headers.contains_key("mcp-method") => {
                response("400 Bad Request", "content-type: text/plain\r\n", "of another era")
            }
            _ if !stateless
                && let Like::Losing(status, words) = self.like
                && headers.get("mcp-session-id") != Some(&format!("session-{session}"))
                && headers.contains_key("mcp-session-id") =>
            {
                let error =
                    json!({ "jsonrpc": "2.0", "error": { "code": -32000, "message": words }, "id": null });
                response(status, "content-type: application/json\r\n", &error.to_string())
            }
            _ if !stateless && headers.get("mcp-session-id") != Some(&format!("session-{session}")) => {
                // The error of published servers for a missing session: it has no request's id.
                let error = json!({ "jsonrpc": "2.0", "error": { "code": -32000, "message": "no session" }, "id": null });
                let status =
                    if headers.contains_key("mcp-session-id") { "404 Not Found" } else { "400 Bad Request" };
                response(status, "content-type: application/json\r\n", &error.to_string())
            }
            "tools/list" => self.in_its_way(&result(id, &self.list(session, stateless))),
            "tools/call" => self.call(message, id),
            "subscriptions/listen" if stateless => {
                let about = json!({ "io.modelcontextprotocol/subscriptionId": id });
                let params = json!({ "_meta": about, "notifications": { "toolsListChanged": true } });
                let method = "notifications/subscriptions/acknowledged";
                stream("", &event(&json!({ "jsonrpc": "2.0", "method": method, "params": params })))
            }
            _ => json_response(
                "",
                &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no" } }),
            ),
        }
    }

    fn discovered(&self) -> Value {
        json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": { "listChanged": self.like == Like::Subscribed } },
            "serverInfo": { "name": "fake", "version": "1" }, "ttlMs": 0, "cacheScope": "private",
        })
    }

    fn list(&self, session: u32, stateless: bool) -> Value {
        let mut tool = json!({ "name": "echo", "inputSchema": { "type": "object" } });
        if self.like == Like::Redeployed {
            tool["description"] = format!("of session {session}").into();
        }
        let mut list = json!({ "tools": [tool] });
        if stateless {
            list["resultType"] = "complete".into();
        }
        list
    }

    fn call(&self, message: &Value, id: &Value) -> String {
        match self.like {
            Like::Cut => stream("", ""),
            Like::After(events) => {
                let token = &message["params"]["_meta"]["progressToken"];
                let answer = result(id, &text(&message["params"]["arguments"].to_string()));
                stream("", &format!("{}{}", events.replace("TOKEN", &token.to_string()), event(&answer)))
            }
            Like::Resumable => stream("", &format!("id: {id}\nretry: 10\ndata:\n\n")),
            Like::Answering(status, head, body) => {
                response(status, head, &body.replace("ID", &id.to_string()))
            }
            Like::Forgetful | Like::Redeployed | Like::Losing(..) => {
                *self.sessions.lock().unwrap() += 1;
                json_response("", &result(id, &text("before it was forgotten")))
            }
            _ => self.in_its_way(&result(id, &text(&message["params"]["arguments"].to_string()))),
        }
    }

    fn in_its_way(&self, message: &Value) -> String {
        match self.like {
            Like::Events => {}
            Like::After(events) => return stream("", &format!("{events}{}", event(message))),
            _ => return json_response("", message),
        }
        let report = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "x" } });
        // The first event of some servers has no data.
        stream("", &format!("id: 0\ndata:\n\n: a comment\n\n{}{}", event(&report), event(message)))
    }
}

fn result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn text(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}
