//! The tools of the server.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, OutgoingRequest, ResponseOutparam, Scheme};

use crate::hostile;
use crate::http::{self, Answer, Asked};

/// How often `counter` was called in this instance.
static COUNTER: AtomicU32 = AtomicU32::new(0);

/// A page of the list.
pub(crate) fn page(mode: &str, cursor: &Value) -> Value {
    match (mode, cursor.as_str()) {
        ("paged", None) => json!({ "tools": [tool("echo", "Says it again.")], "nextCursor": "2" }),
        ("paged", Some("2")) => json!({ "tools": [tool("counter", "Counts.")] }),
        ("endless", _) => json!({ "tools": [], "nextCursor": "more" }),
        ("strange", _) => json!({ "tools": [
            tool("files.read", "Has a dot."), tool("files.read", "Again."), tool("a b", "Has a blank."),
            { "name": "broken", "inputSchema": { "type": "object", "properties": { "a": { "type": "none" } } } },
            7,
        ] }),
        _ => json!({ "tools": all() }),
    }
}

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

fn all() -> Vec<Value> {
    let text =
        json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
    let number = json!({ "type": "number" });
    let sum = json!({ "type": "object", "properties": { "sum": number }, "required": ["sum"] });
    let mut all = vec![
        json!({ "name": "echo", "title": "Echo", "description": "Says it again.", "inputSchema": text,
            "annotations": { "readOnlyHint": true } }),
        json!({ "name": "add", "description": "Adds two numbers.", "outputSchema": sum,
            "inputSchema": { "type": "object", "properties": { "a": number, "b": number } } }),
        json!({ "name": "hostile", "description": "Misbehaves.", "outputSchema": sum,
            "inputSchema": { "type": "object" } }),
    ];
    let others = [
        ("count", "Counts, and tells how far it is."),
        ("counter", "Counts its calls."),
        ("asked", "Tells how it was asked."),
        ("env", "One variable."),
        ("read", "One file."),
        ("write", "One file."),
        ("get", "One page of the web."),
        ("picture", "A picture and a text."),
        ("fail", "Fails."),
        ("refuse", "Refuses its arguments."),
    ];
    all.extend(others.map(|(name, description)| tool(name, description)));
    all
}

/// Answers a call.
pub(crate) fn call(asked: &Asked, id: &Value, out: ResponseOutparam) {
    let params = &asked.message["params"];
    let arguments = &params["arguments"];
    let text = |name: &str| arguments[name].as_str().unwrap_or_default();
    let result = match params["name"].as_str().unwrap_or_default() {
        "count" => return count(params, id, out),
        "hostile" => return hostile::misbehave(text("how"), id, out),
        "refuse" => {
            let error = json!({ "code": -32602, "message": "`text` is missing" });
            return http::message(out, false, None, &json!({ "id": id, "error": error }));
        }
        "echo" | "files.read" => said(text("text")),
        "add" => {
            let sum =
                arguments["a"].as_f64().unwrap_or_default() + arguments["b"].as_f64().unwrap_or_default();
            json!({ "content": [{ "type": "text", "text": sum.to_string() }], "structuredContent": { "sum": sum } })
        }
        "counter" => said(&(COUNTER.fetch_add(1, Ordering::Relaxed) + 1).to_string()),
        "asked" => said(&format!("{}{} {:?}", asked.authority, asked.path, asked.header("accept"))),
        "env" => said(&std::env::var(text("name")).unwrap_or_else(|_| "unset".into())),
        "read" => of(std::fs::read_to_string(text("path")).map_err(|error| error.to_string())),
        "write" => {
            of(std::fs::write(text("path"), "written").map(|()| String::new()).map_err(|e| e.to_string()))
        }
        "get" => of(get(text("authority"), text("path"))),
        "picture" => json!({ "content": [
            { "type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo=" }, { "type": "text", "text": "seen" },
        ] }),
        "fail" => json!({ "content": [{ "type": "text", "text": "it broke" }], "isError": true }),
        other => of(Err(format!("no tool `{other}`"))),
    };
    http::message(out, false, None, &json!({ "id": id, "result": result }));
}

fn said(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn of(done: Result<String, String>) -> Value {
    match done {
        Ok(text) => said(&text),
        Err(text) => json!({ "content": [{ "type": "text", "text": text }], "isError": true }),
    }
}

/// Counts to ten in a stream, with progress, a log message and what is none of this call's business.
fn count(params: &Value, id: &Value, out: ResponseOutparam) {
    let token = &params["_meta"]["progressToken"];
    let Some(answer) = Answer::events(out) else { return };
    let told = |method: &str, params: Value| json!({ "method": method, "params": params });
    answer.event(&told("notifications/message", json!({ "level": "info", "data": "begun" })));
    for done in 1..=10 {
        let step = json!({ "progressToken": token, "progress": done, "total": 10, "message": format!("step {done}") });
        answer.event(&told("notifications/progress", step));
    }
    answer.event(&told("notifications/progress", json!({ "progressToken": "another", "progress": 99 })));
    answer.event(&told("notifications/progress", json!({ "progressToken": token, "progress": 3 })));
    answer.event(&json!({ "id": 1, "method": "ping" }));
    answer.event(&json!({ "id": "another", "result": said("another's") }));
    answer.event(&json!({ "id": id, "result": said("counted to 10") }));
    answer.finish();
}

fn get(authority: &str, path: &str) -> Result<String, String> {
    let request = OutgoingRequest::new(Fields::new());
    let set = request.set_scheme(Some(&Scheme::Http)).and_then(|()| request.set_authority(Some(authority)));
    set.and_then(|()| request.set_path_with_query(Some(path))).map_err(|()| "no such place".to_owned())?;
    let answered = outgoing_handler::handle(request, None).map_err(|error| error.to_string())?;
    answered.subscribe().block();
    let answer =
        answered.get().and_then(Result::ok).ok_or("no answer")?.map_err(|error| error.to_string())?;
    let body = answer.consume().map_err(|()| "no body".to_owned())?;
    String::from_utf8(http::read_all(&body)).map_err(|error| error.to_string())
}
