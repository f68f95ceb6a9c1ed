//! Writes a request for the Responses API: one flat list of items; ids link calls and answers.

use serde_json::{Map, Value, json};

use super::{VENDOR, message};
use crate::provider::calls::{echo_arguments, echo_name, is_own};
use crate::provider::dialect::Terms;
use crate::provider::files::DOCUMENTS;
use crate::provider::openai::{content as text, data_url, file_name};
use crate::provider::{Ask, Exchange, Message, Reply, schema};
use haft_core::call::{Attachment, ToolDef};

/// Models without reasoning: OpenAI rejects a request for their encrypted reasoning.
const WITHOUT_REASONING: &[&str] = &["gpt-3.5", "gpt-4", "chatgpt-4o"];

pub(super) fn body(ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
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
        let output = content(&text(result), &result.attachments);
        json!({ "type": "function_call_output", "call_id": call_id, "output": output })
    }));
}

/// Adds the items for a reply of another vendor.
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
