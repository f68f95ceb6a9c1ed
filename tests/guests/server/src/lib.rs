//! An MCP server in a component, written by hand on `wasi:http/incoming-handler`, which does not know haft. The
//! kind of server is in its data, into which a test writes another [`MODE`].

#![allow(clippy::indexing_slicing, reason = "JSON without a member is null")]
#![allow(clippy::panic, reason = "one of the ways to misbehave")]

mod hostile;
mod http;
mod tools;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::{Value, json};
use wasip2::http::types::{IncomingRequest, ResponseOutparam};

use http::Asked;

/// What kind of server this is, between `=` and `;`.
#[used]
static MODE: [u8; 21] = *b"haft-mode=plain     ;";

/// Whether this instance was greeted.
static GREETED: AtomicBool = AtomicBool::new(false);

/// Requests to this instance.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// The component.
struct Server;

/// What the component exports.
#[allow(clippy::allow_attributes_without_reason, unsafe_code, reason = "generated")]
mod exported {
    use super::Server;

    wasip2::http::proxy::export!(Server);
}

impl wasip2::exports::http::incoming_handler::Guest for Server {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let (mode, asked) = (mode(), Asked::read(&request));
        let requests = REQUESTS.fetch_add(1, Ordering::Relaxed);
        assert!(mode != "once" || requests == 0, "a second request");
        let path = if mode == "template" { "/v1/mcp" } else { "/mcp" };
        match mode.as_str() {
            "website" => http::whole(out, 200, "text/html", b"<h1>Hello</h1>"),
            "api" => http::whole(out, 404, "application/json", br#"{"error":{"code":404,"message":"no"}}"#),
            "locked" => http::whole(out, 401, "text/plain", b"who are you?"),
            "silent" => {}
            "garbage" => http::whole(out, 200, "application/json", b"{\"jsonrpc\":"),
            _ if asked.path != path => http::whole(out, 404, "text/plain", b"not here"),
            _ => answer(&mode, &asked, out),
        }
    }
}

fn mode() -> String {
    let text = String::from_utf8_lossy(std::hint::black_box(&MODE)).into_owned();
    text.trim_start_matches("haft-mode=").trim_end_matches(';').trim().to_owned()
}

/// Answers a message, by what kind of server this is.
fn answer(mode: &str, asked: &Asked, out: ResponseOutparam) {
    let id = asked.message["id"].clone();
    let refuse = |out, status, code: i64, message: &str| {
        let error = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
        http::whole(out, status, "application/json", error.to_string().as_bytes());
    };
    if id.is_null() {
        return http::whole(out, 202, "text/plain", b"");
    }
    if mode == "future" {
        if asked.method() == "initialize" {
            return refuse(out, 400, -32601, "Method not found: initialize");
        }
        if let Some(missing) = asked.lacks_statelessness() {
            return refuse(out, 400, -32020, &format!("no {missing}"));
        }
    }
    if mode == "session" && asked.method() != "initialize" && !is_of_the_session(asked) {
        return refuse(out, 400, -32000, "Bad Request: Mcp-Session-Id header is required");
    }
    if mode == "shy" && asked.method() != "initialize" && !GREETED.load(Ordering::Relaxed) {
        return refuse(out, 400, -32000, "Bad Request: Server not initialized");
    }
    match asked.method() {
        "initialize" => {
            GREETED.store(true, Ordering::Relaxed);
            let session = (mode == "session").then_some("session-7");
            http::message(out, mode == "events", session, &json!({ "id": id, "result": greeting(mode) }));
        }
        "server/discover" => http::message(out, false, None, &json!({ "id": id, "result": discovered() })),
        "tools/list" => {
            let page = tools::page(mode, &asked.message["params"]["cursor"]);
            http::message(out, mode == "events", None, &json!({ "id": id, "result": page }));
        }
        "tools/call" => tools::call(asked, &id, out),
        other => refuse(out, 200, -32601, &format!("Method not found: {other}")),
    }
}

fn is_of_the_session(asked: &Asked) -> bool {
    asked.header("mcp-session-id").as_deref() == Some("session-7") && GREETED.load(Ordering::Relaxed)
}

fn greeting(mode: &str) -> Value {
    let capabilities = if mode == "prompts" { json!({ "prompts": {} }) } else { json!({ "tools": {} }) };
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": capabilities,
        "serverInfo": { "name": "by hand", "version": "1.0.0" },
    })
}

fn discovered() -> Value {
    json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
        "serverInfo": { "name": "by hand", "version": "1.0.0" } })
}
