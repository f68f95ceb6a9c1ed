//! OpenAI's Responses API, which its current models use for tools: requests and responses, as pure functions.
//! Nothing is stored at the vendor (`store = false`): the response contains the model's thinking encrypted, and the
//! next request contains it unmodified.

mod stream;

use serde_json::{Map, Value, json};

use super::codes::reported_error;
use super::dialect::{self, Api, Dialect, Ending, Fold, Terms};
use super::error::Failure;
use super::files::DOCUMENTS;
use super::openai::{self, TAKES, data_url, file_name, format};
use super::output::{Formats, OutputSchema};
use super::{Ask, Exchange, Message, Reply, RequestedCall, Turn, Usage, schema};
use crate::provider::calls::{self, echo_arguments, echo_name, is_object_text, is_own};
use haft_core::call::{Attachment, ToolDef};

/// The vendor of messages that are sent back unmodified; it differs from that of chat completions.
const VENDOR: &str = "openai-responses";

/// The constants of the API. Reserved are also the keys that would store the conversation at the vendor, or continue
/// it without haft.
const API: Api = Api {
    reserved: &[
        "background",
        "conversation",
        "input",
        "instructions",
        "model",
        "previous_response_id",
        "store",
        "stream",
        "tools",
    ],
    vendor: VENDOR,
    ends: dialect::RESPONSES,
    path: "responses",
    id_bytes: [64; 2],
    files: [&TAKES; 2],
    ..openai::API
};

pub(super) struct Responses;

impl Dialect for Responses {
    fn api(&self) -> Api {
        API
    }

    fn formats(&self, _model: &str, is_vendor: bool) -> Formats {
        if is_vendor { Formats::BesideTools } else { Formats::Alone }
    }

    fn conversation(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("model".into(), ask.model.into());
        if !ask.system.is_empty() {
            body.insert("instructions".into(), ask.system.into());
        }
        body.insert("input".into(), items(ask).into());
        if !ask.tools.is_empty() {
            body.insert("tools".into(), ask.tools.iter().map(|def| tool(def)).collect());
        }
        if !WITHOUT_REASONING.iter().any(|name| ask.model.starts_with(name)) {
            body.insert("include".into(), json!(["reasoning.encrypted_content"]));
        }
        if let Some(effort) = terms.effort {
            body.insert("reasoning".into(), json!({ "effort": effort.as_str() }));
        }
        if let Some(most) = terms.max_tokens {
            body.insert("max_output_tokens".into(), most.into());
        }
        body.insert("store".into(), false.into());
        if terms.stream {
            body.insert("stream".into(), true.into());
        }
        body
    }

    fn add_schema(&self, body: &mut Map<String, Value>, output: &OutputSchema, is_vendor: bool) {
        body.insert("text".into(), json!({ "format": format::text(output, is_vendor) }));
    }

    fn decode(&self, ask: &Ask<'_>, body: Value) -> Result<Turn, Failure> {
        reported_error(&body)?;
        let text = |path: &str| body.pointer(path).and_then(Value::as_str);
        let status = text("/status").unwrap_or_default();
        let reason = text("/incomplete_details/reason").filter(|_| status == "incomplete");
        let mut end = self.end(reason.unwrap_or(status));
        let output = body.get("output").and_then(Value::as_array);
        if output.is_none() && end.ending == Ending::Failed {
            return Err(Failure::Botched(format!("the response is `{status}`, without an error message")));
        }
        let output = output.ok_or_else(|| Failure::Malformed("the list `output` is missing".into()))?;
        if end.ending == Ending::Done && output.iter().any(|item| refusal(item).is_some()) {
            end.ending = Ending::Refused;
        }
        let reply = decode(output, end.is_cut(), ask.calls());
        self.turn(ask, &body, reply, &end)
    }

    fn usage(&self, body: &Value) -> Usage {
        let count = |path: &str| body.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        Usage {
            input: count("/usage/input_tokens"),
            output: count("/usage/output_tokens"),
            cached: count("/usage/input_tokens_details/cached_tokens"),
            stored: count("/usage/input_tokens_details/cache_write_tokens"),
            cost: None,
        }
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::<stream::Response>::default()
    }
}

/// Returns a message in the form that needs no id.
fn message(role: &str, content: impl Into<Value>) -> Value {
    json!({ "role": role, "content": content.into() })
}

// Writes a request: one flat list of items; ids link calls and answers.

/// Models without reasoning: OpenAI rejects a request for their encrypted reasoning.
const WITHOUT_REASONING: &[&str] = &["gpt-3.5", "gpt-4", "chatgpt-4o"];

/// Returns the definition of a tool. `strict` would reject every schema with an optional argument.
fn tool(def: &ToolDef) -> Value {
    json!({
        "type": "function",
        "name": def.name,
        "description": def.description,
        "parameters": schema::plain_object(&def.parameters),
        "strict": false,
    })
}

fn items(ask: &Ask<'_>) -> Vec<Value> {
    let mut items = Vec::new();
    for step in ask.messages {
        match step {
            Message::User(prompt) => items.push(message("user", content(&prompt.text, &prompt.attachments))),
            Message::Turn(exchange) => push_exchange(&mut items, exchange),
        }
    }
    items
}

fn push_exchange(items: &mut Vec<Value>, exchange: &Exchange) {
    let reply = exchange.reply();
    let output = reply.raw.get("output").and_then(Value::as_array).filter(|_| is_own(reply, VENDOR));
    match output {
        Some(output) => items.extend(output.iter().cloned()),
        None => push_rebuilt(items, reply),
    }
    items.extend(exchange.answered().map(|(requested, result)| {
        let call_id = requested.call.id.as_str();
        let output = content(&openai::content(result), &result.attachments);
        json!({ "type": "function_call_output", "call_id": call_id, "output": output })
    }));
}

fn push_rebuilt(items: &mut Vec<Value>, reply: &Reply) {
    if !reply.text.is_empty() || reply.calls.is_empty() {
        items.push(message("assistant", reply.text.as_str()));
    }
    items.extend(reply.calls.iter().map(|requested| {
        json!({
            "type": "function_call",
            "call_id": requested.call.id,
            "name": echo_name(&requested.call.tool),
            "arguments": echo_arguments(requested).to_string(),
        })
    }));
}

/// Returns a text, or a list of the text and its files.
fn content(text: &str, attachments: &[Attachment]) -> Value {
    if attachments.is_empty() {
        return text.into();
    }
    let text =
        Some(text).filter(|text| !text.is_empty()).map(|text| json!({ "type": "input_text", "text": text }));
    text.into_iter().chain(attachments.iter().map(part)).collect()
}

fn part(attachment: &Attachment) -> Value {
    let url = data_url(attachment);
    if DOCUMENTS.contains(&attachment.media_type.as_str()) {
        return json!({ "type": "input_file", "filename": file_name(attachment), "file_data": url });
    }
    json!({ "type": "input_image", "image_url": url, "detail": "auto" })
}

// Reads a response.

/// The separator between two messages of one response.
const BETWEEN: &str = "\n\n";

/// Reads `output`. `cut`: the limit of output tokens ended it. `earlier`: the number of calls already in the
/// conversation, from which missing ids are generated.
fn decode(output: &[Value], cut: bool, earlier: usize) -> Reply {
    let mut calls: Vec<RequestedCall> = Vec::new();
    let mut echoes = Vec::new();
    for item in output.iter().filter_map(Value::as_object) {
        match kind(item) {
            "function_call" => {
                let id = item.get("call_id");
                let requested = calls::requested_call(id, Some(item), "arguments", &calls, earlier);
                echoes.push(echo_call(item, &requested));
                calls.push(requested);
            }
            "reasoning" => echoes.extend(echo_reasoning(item)),
            _ => echoes.push(without_nulls(item).into()),
        }
    }
    if cut {
        calls::cut_off(&mut calls);
    }
    // The API rejects reasoning that no item follows.
    while echoes.last().and_then(Value::as_object).is_some_and(|item| kind(item) == "reasoning") {
        echoes.pop();
    }
    let raw = json!({ "output": echoes });
    Reply { text: text(output), calls, raw, vendor: VENDOR.into(), ..Reply::default() }
}

fn kind(item: &Map<String, Value>) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the text of all messages, or else the refusals.
fn text(output: &[Value]) -> String {
    let texts: Vec<String> = output.iter().map(|item| parts(item, "text").collect()).collect();
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    if texts.is_empty() { output.iter().filter_map(refusal).collect() } else { texts.join(BETWEEN) }
}

fn refusal(item: &Value) -> Option<&str> {
    parts(item, "refusal").find(|text| !text.is_empty())
}

fn parts<'v>(item: &'v Value, key: &'static str) -> impl Iterator<Item = &'v str> {
    let is_message = item.get("type").and_then(Value::as_str) == Some("message");
    let content = item.get("content").filter(|_| is_message).and_then(Value::as_array);
    content.into_iter().flatten().filter_map(move |part| part.get(key)?.as_str())
}

/// Returns the call to send back, corrected where the API would reject its own output.
fn echo_call(item: &Map<String, Value>, requested: &RequestedCall) -> Value {
    let mut echo = without_nulls(item);
    echo.insert("call_id".into(), requested.call.id.as_str().into());
    echo.insert("name".into(), echo_name(&requested.call.tool).into());
    if requested.problem.is_some() || !echo.get("arguments").is_some_and(is_taken_back) {
        echo.insert("arguments".into(), echo_arguments(requested).to_string().into());
    }
    echo.into()
}

fn is_taken_back(arguments: &Value) -> bool {
    arguments.as_str().is_some_and(|text| text.trim().is_empty()) || is_object_text(arguments)
}

/// Returns a reasoning item with its content; an item with an id alone is not stored at the vendor.
fn echo_reasoning(item: &Map<String, Value>) -> Option<Value> {
    let mut echo = without_nulls(item);
    echo.entry("summary").or_insert_with(|| json!([]));
    let has = |key: &str| match echo.get(key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        _ => false,
    };
    (has("encrypted_content") || has("content")).then(|| echo.into())
}

fn without_nulls(item: &Map<String, Value>) -> Map<String, Value> {
    let mut item = item.clone();
    item.retain(|_, value| !value.is_null());
    item
}

#[cfg(test)]
mod tests;
