//! Ollama's chat API: requests and responses, as pure functions. Calls may lack ids, and arguments may be text;
//! the thinking of a model is sent back with its text.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::calls::{self, echo_arguments, echo_name};
use super::codes::reported_error;
use super::dialect::{self, Api, Dialect, Fold, Piece, Terms};
use super::error::Failure;
use super::files::{Kind, Takes};
use super::models::OLLAMA;
use super::openai::{self, ChatMessage, content};
use super::output::{Formats, OutputSchema};
use super::schema::{self, Subset};
use super::{Ask, Exchange, Message, Reply, RequestedCall, Turn, Usage};
use haft_core::call::{Attachment, ToolDef};
use haft_core::model::Effort;
use haft_core::net::Framing;

pub(super) const NAME: &str = "ollama";

/// The keywords that the server reads of a schema: the others do not reach the model's template.
const SCHEMA: Subset = Subset {
    keywords: &["type", "description", "enum", "properties", "required", "items", "anyOf"],
    formats: &[],
    nullable: false,
    is_strict: false,
};

/// Images of up to 100 MB, the limit of the vendor's own client; the model's context window limits their number.
const TAKES: Takes = Takes {
    kinds: &[Kind { media_types: &["image/png", "image/jpeg", "image/webp"], most: 100 << 20 }],
    total: 100 << 20,
    count: 100,
};

const API: Api = Api {
    listing: OLLAMA,
    models_path: "api/tags",
    key: ("authorization", "Bearer "),
    headers: &[],
    reserved: &["messages", "model", "stream", "tools"],
    framing: Framing::Lines,
    vendor: NAME,
    is_shared: false,
    tells_cost: false,
    ends: dialect::OLLAMA,
    path: "api/chat",
    id_bytes: [usize::MAX; 2],
    files: [&TAKES; 2],
};

pub(super) struct Ollama;

impl Dialect for Ollama {
    fn api(&self) -> Api {
        API
    }

    fn formats(&self, _model: &str, _is_vendor: bool) -> Formats {
        // The server enforces the schema on every answer, so the model could call no tool.
        Formats::Alone
    }

    fn add_schema(&self, body: &mut Map<String, Value>, output: &OutputSchema, _is_vendor: bool) {
        body.insert("format".into(), output.mended().clone());
    }

    fn conversation(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("model".into(), ask.model.into());
        body.insert("messages".into(), messages(ask).into());
        if !ask.tools.is_empty() {
            body.insert("tools".into(), ask.tools.iter().map(|def| tool(def)).collect());
        }
        // The default is `true`.
        body.insert("stream".into(), terms.stream.into());
        if let Some(effort) = terms.effort {
            body.insert("think".into(), think(ask.model, effort));
        }
        let options = [("num_predict", terms.max_tokens), ("num_ctx", terms.context_window)];
        let options: Map<_, _> =
            options.into_iter().filter_map(|(key, count)| Some((key.to_owned(), count?.into()))).collect();
        if !options.is_empty() {
            body.insert("options".into(), options.into());
        }
        body
    }

    fn decode(&self, ask: &Ask<'_>, body: Value) -> Result<Turn, Failure> {
        reported_error(&body)?;
        let message = body.get("message").and_then(Value::as_object);
        let message = message.ok_or_else(|| Failure::Empty("no message".into()))?;
        let is_done = body.get("done") == Some(&Value::Bool(true));
        let usual = if is_done { "done" } else { "" };
        let end = self.end(body.get("done_reason").and_then(Value::as_str).unwrap_or(usual));
        let reply = decode(message, end.is_cut(), ask.calls());
        self.turn(ask, &body, reply, &end)
    }

    fn usage(&self, body: &Value) -> Usage {
        let count = |key| body.get(key).and_then(Value::as_u64).unwrap_or(0);
        Usage { input: count("prompt_eval_count"), output: count("eval_count"), ..Usage::default() }
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::<Chat>::default()
    }
}

/// Returns the `think` parameter. One family of models has levels, and cannot turn thinking off.
fn think(model: &str, effort: Effort) -> Value {
    let has_steps = model.rsplit('/').next().is_some_and(|name| name.starts_with("gpt-oss"));
    match effort {
        Effort::None if !has_steps => false.into(),
        _ if !has_steps => true.into(),
        Effort::None | Effort::Minimal | Effort::Low => "low".into(),
        Effort::Medium => "medium".into(),
        Effort::High | Effort::XHigh | Effort::Max => "high".into(),
    }
}

fn tool(def: &ToolDef) -> Value {
    // The server gets a schema that cannot be translated unmodified.
    let parameters = SCHEMA.translate(&def.parameters).map(Value::from);
    openai::tool(def, &parameters.unwrap_or_else(|| schema::plain_object(&def.parameters)))
}

fn messages(ask: &Ask<'_>) -> Vec<Value> {
    let mut messages = Vec::new();
    if !ask.system.is_empty() {
        messages.push(json!({ "role": "system", "content": ask.system }));
    }
    for message in ask.messages {
        match message {
            Message::User(prompt) => {
                let message = json!({ "role": "user", "content": prompt.text });
                messages.push(with_images(message, &prompt.attachments));
            }
            Message::Turn(exchange) => push_exchange(&mut messages, exchange),
        }
    }
    messages
}

/// Adds the reply, then an answer for each call with the name of the tool: without ids, the name identifies the
/// call.
fn push_exchange(messages: &mut Vec<Value>, exchange: &Exchange) {
    let reply = exchange.reply();
    let is_own = calls::is_own(reply, NAME);
    messages.push(if is_own { reply.raw.clone() } else { rebuilt(reply) });
    for (index, (requested, result)) in exchange.answered().enumerate() {
        let mut answer = json!({
            "role": "tool", "tool_name": echo_name(&requested.call.tool), "content": content(result),
        });
        let id = reply.raw.get("tool_calls").and_then(|calls| calls.get(index)?.get("id")).cloned();
        if let (Some(answer), Some(id)) = (answer.as_object_mut(), id.filter(|_| is_own)) {
            answer.insert("tool_call_id".into(), id);
        }
        messages.push(with_images(answer, &result.attachments));
    }
}

fn with_images(mut message: Value, attachments: &[Attachment]) -> Value {
    if let Some(message) = message.as_object_mut().filter(|_| !attachments.is_empty()) {
        let images = attachments.iter().map(|attachment| BASE64_STANDARD.encode(&attachment.data));
        message.insert("images".into(), images.collect());
    }
    message
}

/// Returns the message for a reply of another vendor.
fn rebuilt(reply: &Reply) -> Value {
    let function = |requested| json!({ "function": echo_function(&Map::new(), requested) });
    let calls: Vec<_> = reply.calls.iter().map(function).collect();
    let mut message = json!({ "role": "assistant", "content": reply.text });
    if let Some(message) = message.as_object_mut().filter(|_| !calls.is_empty()) {
        message.insert("tool_calls".into(), calls.into());
    }
    message
}

/// Reads a message. Never fails: unreadable parts become an error message for the model.
fn decode(message: &Map<String, Value>, cut: bool, earlier: usize) -> Reply {
    let text = message.get("content").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut reply = Reply { text, vendor: NAME.into(), ..Reply::default() };
    let mut echoes = Vec::new();
    let sent = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    for entry in sent.filter_map(Value::as_object) {
        let function = entry.get("function").and_then(Value::as_object).cloned().unwrap_or_default();
        let (id, before) = (entry.get("id"), &reply.calls);
        let requested = calls::requested_call(id, Some(&function), "arguments", before, earlier);
        let mut echo = entry.clone();
        if entry.get("id").is_some_and(|id| id.as_str().is_some_and(|id| !id.is_empty())) {
            echo.insert("id".into(), requested.call.id.as_str().into());
        }
        echo.insert("function".into(), echo_function(&function, &requested).into());
        echoes.push(echo);
        reply.calls.push(requested);
    }
    if cut {
        calls::cut_off(&mut reply.calls);
    }
    let mut raw = message.clone();
    raw.insert("role".into(), "assistant".into());
    raw.insert("content".into(), reply.text.as_str().into());
    raw.retain(|key, value| key != "tool_calls" && !value.is_null());
    if !echoes.is_empty() {
        raw.insert("tool_calls".into(), echoes.into_iter().map(Value::Object).collect());
    }
    reply.raw = raw.into();
    reply
}

/// Returns a function with a name and arguments that the server accepts back.
fn echo_function(function: &Map<String, Value>, requested: &RequestedCall) -> Map<String, Value> {
    let mut echo = function.clone();
    echo.insert("name".into(), echo_name(&requested.call.tool).into());
    echo.insert("arguments".into(), echo_arguments(requested));
    echo
}

// Parses the address of an Ollama server from the format of its own variable. Reads no environment variable
// itself.

/// The environment variable of Ollama's own programs.
pub const HOST_VARIABLE: &str = "OLLAMA_HOST";
const DEFAULT_PORT: u16 = 11434;

/// Parses scheme, host and port from the value of `OLLAMA_HOST`: a host, a port or a URL, each with the defaults
/// for the missing parts. An address for all interfaces becomes the loopback address.
pub fn host(address: &str) -> (&'static str, String, u16) {
    let address = address.trim();
    let (scheme, address) = match address.split_once("://") {
        Some(("https", rest)) => ("https", rest),
        Some((_, rest)) => ("http", rest),
        None => ("http", address),
    };
    let address = address.split(['/', '?', '#']).next().unwrap_or_default();
    // Drop the user name and password.
    let address = address.rsplit('@').next().unwrap_or_default();
    let (address, port) = match address.rsplit_once(':') {
        // More colons are part of an IPv6 address (`::1`), unless it is in brackets.
        Some((before, after)) if !before.contains(':') || before.ends_with(']') => {
            (before, after.parse().ok())
        }
        _ => (address, None),
    };
    let address = address.trim_matches(['[', ']']);
    let address = if matches!(address, "" | "0.0.0.0" | "::") { "127.0.0.1" } else { address };
    let default = if scheme == "https" { 443 } else { DEFAULT_PORT };
    (scheme, address.to_owned(), port.unwrap_or(default))
}

// Folds a streamed chat into a complete response: texts are appended, calls are added, and the last line has the
// token counts.

#[derive(Default)]
struct Chat {
    body: Map<String, Value>,
    message: ChatMessage,
}

impl Fold for Chat {
    fn take(&mut self, frame: Value, pieces: &mut Vec<Piece>) -> Result<(), Failure> {
        reported_error(&frame)?;
        let Value::Object(mut frame) = frame else {
            return Err(Failure::Malformed("a line is not an object".into()));
        };
        if let Some(Value::Object(message)) = frame.shift_remove("message") {
            let text = |key| message.get(key).and_then(Value::as_str).map(str::to_owned);
            pieces.extend(text("thinking").map(Piece::Thought));
            pieces.extend(text("content").map(Piece::Text));
            self.message.join(message)?;
        }
        self.body.extend(frame.into_iter().filter(|(_, value)| !value.is_null()));
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.body.get("done") == Some(&Value::Bool(true))
    }

    fn is_over(&self) -> bool {
        self.is_complete()
    }

    fn body(self: Box<Self>) -> Value {
        let Self { mut body, message } = *self;
        let message = message.whole();
        if !message.is_empty() {
            body.insert("message".into(), message.into());
        }
        body.into()
    }
}

#[cfg(test)]
mod tests;
