//! An MCP server in a component of WASI 0.3 (`wasi:http/handler`), which answers with JSON or with events. It does
//! not know haft.

#![allow(clippy::indexing_slicing, reason = "JSON without a member is null")]
#![allow(clippy::panic, reason = "one of the ways to misbehave")]

#[allow(clippy::pedantic, unsafe_code, reason = "generated")]
mod bindings {
    use super::Handler;

    wit_bindgen::generate!({ path: "src/handler.wit", generate_all });
    export!(Handler with_types_in self);
}

use serde_json::{Value, json};
use wit_bindgen::spawn_local;

use bindings::exports::wasi::http::handler::Guest;
use bindings::wasi::clocks::monotonic_clock::wait_for;
use bindings::wasi::http::types::{ErrorCode, Fields, Request, Response};
use bindings::{wit_future, wit_stream};

/// The component.
struct Handler;

/// Nanoseconds between two events.
const PAUSE: u64 = 5_000_000;

impl Guest for Handler {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        if request.get_path_with_query().as_deref() != Some("/mcp") {
            return Ok(respond(404, "text/plain", vec![b"not here".to_vec()]));
        }
        let (_, taken) = wit_future::new(|| Ok(()));
        let body = Request::consume_body(request, taken).0.collect().await;
        let asked: Value = serde_json::from_slice(&body).map_err(|_| ErrorCode::HttpProtocolError)?;
        if asked["id"].is_null() {
            return Ok(respond(202, "text/plain", Vec::new()));
        }
        let arguments = &asked["params"]["arguments"];
        let result = match asked["method"].as_str() {
            Some("initialize") => greeting(&asked),
            Some("tools/list") => json!({ "tools": tools() }),
            Some("tools/call") if asked["params"]["name"] == "trap" => panic!("as told"),
            Some("tools/call") if asked["params"]["name"] == "never" => wait_for_ever().await,
            Some("tools/call") if asked["params"]["name"] == "count" => return Ok(count(&asked)),
            _ => text(arguments["text"].as_str().unwrap_or_default()),
        };
        Ok(respond(200, "application/json", vec![answer(&asked, &result).into_bytes()]))
    }
}

fn greeting(asked: &Value) -> Value {
    json!({
        "protocolVersion": asked["params"]["protocolVersion"],
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "handler", "version": "1.0.0" },
    })
}

fn tools() -> Vec<Value> {
    let tool = |name: &str, properties: Value| {
        let schema = json!({ "type": "object", "properties": properties });
        json!({ "name": name, "description": format!("Does {name}."), "inputSchema": schema })
    };
    vec![
        tool("echo", json!({ "text": { "type": "string" } })),
        tool("count", json!({ "to": { "type": "integer" } })),
        tool("trap", json!({})),
        tool("never", json!({})),
    ]
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn answer(asked: &Value, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }).to_string()
}

async fn wait_for_ever() -> Value {
    loop {
        wait_for(PAUSE).await;
    }
}

/// Progress as events, one after the other, and then the answer.
fn count(asked: &Value) -> Response {
    let (to, token) = (
        asked["params"]["arguments"]["to"].as_u64().unwrap_or(3),
        &asked["params"]["_meta"]["progressToken"],
    );
    let event = |message: &str| format!("event: message\ndata: {message}\n\n").into_bytes();
    let progress = |number: u64| {
        let params = json!({ "progressToken": token, "progress": number, "total": to });
        event(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }).to_string())
    };
    let pieces = (1..=to).map(progress).chain([event(&answer(asked, &text(&to.to_string())))]);
    respond(200, "text/event-stream", pieces.collect())
}

/// An answer whose body is written piece by piece, with pauses.
fn respond(status: u16, media_type: &str, pieces: Vec<Vec<u8>>) -> Response {
    let headers = Fields::from_list(&[("content-type".to_owned(), media_type.as_bytes().to_vec())]);
    let (mut writer, body) = wit_stream::new();
    let (end, trailers) = wit_future::new(|| Ok(None));
    let (response, _sent) = Response::new(headers.unwrap_or_else(|_| Fields::new()), Some(body), trailers);
    // A status that is none is not set, and the client sees the usual one.
    let _ = response.set_status_code(status);
    spawn_local(async move {
        for (number, piece) in pieces.into_iter().enumerate() {
            if number > 0 {
                wait_for(PAUSE).await;
            }
            if !writer.write_all(piece).await.is_empty() {
                return;
            }
        }
        drop(writer);
        let _ = end.write(Ok(None)).await;
    });
    response
}
