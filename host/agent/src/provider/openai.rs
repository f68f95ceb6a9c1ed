//! OpenAI's chat completions, which most local servers support too: requests and responses, as pure functions.
//! Lenient with responses: an unknown key never loses a turn.

pub(super) mod format;
mod stream;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::codes::reported_error;
use super::dialect::{self, Api, Dialect, Ending, Fold, Terms};
use super::error::Failure;
use super::files::{DOCUMENTS, Kind, PICTURES, Takes};
use super::models::OPENAI;
use super::output::{Formats, OutputSchema};
use super::{Ask, Exchange, Message, Turn, Usage, calls, schema};
use haft_core::call::{Attachment, ToolDef, ToolResult};
use haft_core::net::Framing;

pub(super) use self::stream::ChatMessage;

pub(super) const NAME: &str = "openai";

/// The published limits: 50 MB and 500 pictures a request, 20 MB a picture.
pub(super) const TAKES: Takes = Takes {
    kinds: &[
        Kind { media_types: PICTURES, most: 20 << 20 },
        Kind { media_types: DOCUMENTS, most: usize::MAX },
    ],
    total: 45 << 20,
    count: 500,
};
/// The limits for other servers of this format: images if the model supports vision, and hardly any other type.
const COMPATIBLE: Takes =
    Takes { kinds: &[Kind { media_types: PICTURES, most: 20 << 20 }], total: 45 << 20, count: 500 };

pub(super) const API: Api = Api {
    listing: OPENAI,
    models_path: "models",
    key: ("authorization", "Bearer "),
    headers: &[],
    reserved: &["messages", "model", "n", "stream", "tools"],
    framing: Framing::Events,
    vendor: NAME,
    is_shared: true,
    tells_cost: false,
    ends: dialect::CHAT,
    path: "chat/completions",
    id_bytes: [40, calls::CHOOSY],
    files: [&TAKES, &COMPATIBLE],
};

pub(super) struct OpenAi {
    /// The vendor whose messages are sent back unmodified: the provider itself, or a vendor of its format.
    pub(super) vendor: &'static str,
}

impl Dialect for OpenAi {
    fn api(&self) -> Api {
        Api { vendor: self.vendor, ..API }
    }

    fn formats(&self, _model: &str, is_vendor: bool) -> Formats {
        // Most local servers enforce the schema on every answer, so the model could call no tool.
        if is_vendor { Formats::BesideTools } else { Formats::Alone }
    }

    fn conversation(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("model".into(), ask.model.into());
        body.insert("messages".into(), self.messages(ask).into());
        // OpenAI rejects an empty list, and some servers switch to a tool prompt for it.
        if !ask.tools.is_empty() {
            body.insert(
                "tools".into(),
                ask.tools.iter().map(|def| tool(def, &schema::plain_object(&def.parameters))).collect(),
            );
        }
        if let Some(most) = terms.max_tokens {
            // OpenAI renamed the key, and its reasoning models reject the old name, also behind gateways; other
            // servers of the format support the old name.
            let is_renamed = self.vendor == NAME && (terms.is_vendor || reasons(ask.model));
            let key = if is_renamed { "max_completion_tokens" } else { "max_tokens" };
            body.insert(key.into(), most.into());
        }
        if let Some(effort) = terms.effort {
            body.insert("reasoning_effort".into(), effort.as_str().into());
        }
        if terms.stream {
            body.insert("stream".into(), true.into());
            body.insert("stream_options".into(), json!({ "include_usage": true }));
        }
        body
    }

    fn add_schema(&self, body: &mut Map<String, Value>, output: &OutputSchema, is_vendor: bool) {
        body.insert("response_format".into(), format::response(output, is_vendor));
    }

    fn decode(&self, ask: &Ask<'_>, body: Value) -> Result<Turn, Failure> {
        reported_error(&body)?;
        let choices = body.get("choices").and_then(Value::as_array);
        let choice =
            choices.and_then(|all| all.first()).ok_or_else(|| Failure::Empty("no choices".into()))?;
        reported_error(choice)?;
        let message = choice.get("message").and_then(Value::as_object);
        let message =
            message.ok_or_else(|| Failure::Malformed("the choice has no `message` object".into()))?;
        let finish = choice.get("finish_reason").and_then(Value::as_str).unwrap_or_default();
        let mut end = self.end(finish);
        if end.ending == Ending::Done && stream::refusal(message).is_some() {
            end.ending = Ending::Refused;
        }
        let mut reply = stream::decode(message, end.is_cut(), ask.calls());
        reply.vendor = self.vendor.into();
        self.turn(ask, &body, reply, &end)
    }

    fn usage(&self, body: &Value) -> Usage {
        let count = |path: &str| body.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        Usage {
            input: count("/usage/prompt_tokens"),
            output: count("/usage/completion_tokens"),
            cached: count("/usage/prompt_tokens_details/cached_tokens"),
            ..Usage::default()
        }
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::<stream::Completion>::default()
    }
}

impl OpenAi {
    fn messages(&self, ask: &Ask<'_>) -> Vec<Value> {
        let mut messages = Vec::new();
        if !ask.system.is_empty() {
            messages.push(json!({ "role": "system", "content": ask.system }));
        }
        for message in ask.messages {
            match message {
                Message::User(prompt) => {
                    push_user(&mut messages, of(&prompt.text, &prompt.attachments));
                }
                Message::Turn(exchange) => self.push_exchange(&mut messages, exchange),
            }
        }
        messages
    }

    /// Adds the reply, then one message for each answer, in the order of the calls.
    fn push_exchange(&self, messages: &mut Vec<Value>, exchange: &Exchange) {
        let reply = exchange.reply();
        messages.push(if calls::is_own(reply, self.vendor) {
            reply.raw.clone()
        } else {
            stream::rebuilt(reply)
        });
        let mut files = Vec::new();
        for (requested, result) in exchange.answered() {
            let id = requested.call.id.as_str();
            if !result.attachments.is_empty() {
                let about = format!("[Files of the answer to the call `{id}` of `{}`:]", requested.call.tool);
                files.extend(of(&about, &result.attachments));
            }
            messages.push(json!({ "role": "tool", "tool_call_id": id, "content": content(result) }));
        }
        if !files.is_empty() {
            push_user(messages, files);
        }
    }
}

/// Texts at the start of answers that already mark a failure; the second is [`ToolError`]'s.
///
/// [`ToolError`]: haft_core::tool::ToolError
const FAILED: &[&str] = &["error", "tool error:"];

/// Returns an answer as text, the only content of a tool message: a prefix marks a failure.
pub(super) fn content(result: &ToolResult) -> String {
    let begins =
        |word: &&str| result.content.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let is_marked = FAILED.iter().any(begins);
    let prefix = if result.is_error && !is_marked { "Error: " } else { "" };
    format!("{prefix}{}", result.content)
}

/// Returns whether the name is that of an OpenAI reasoning model, with or without the vendor prefix of gateways:
/// `o3`, `gpt-5-mini`.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let number = |rest: &str| rest.chars().next().filter(char::is_ascii_digit);
    let is_o = || name.strip_prefix('o').and_then(number).is_some();
    let is_later = |digit: char| digit >= '5';
    is_o() || name.strip_prefix("gpt-").and_then(number).is_some_and(is_later)
}

/// Returns the definition of a tool for a chat; Ollama uses this format too.
pub(super) fn tool(def: &ToolDef, parameters: &Value) -> Value {
    json!({
        "type": "function",
        "function": { "name": def.name, "description": def.description, "parameters": parameters },
    })
}

// The content of user messages: a string, or a list of parts if there are files. Pure.

/// The name of an unnamed document, because the API requires one.
const UNNAMED: &str = "document.pdf";

fn of(text: &str, attachments: &[Attachment]) -> Vec<Value> {
    let text = json!({ "type": "text", "text": text });
    std::iter::once(text).chain(attachments.iter().map(part)).collect()
}

/// Adds a user message. Consecutive user messages are joined: many templates require alternating roles.
fn push_user(messages: &mut Vec<Value>, mut parts: Vec<Value>) {
    let last = messages.last_mut().filter(|last| last.get("role") == Some(&"user".into()));
    if let Some(content) = last.and_then(|last| last.get_mut("content")) {
        let mut all = match content.take() {
            Value::Array(all) => all,
            text => vec![json!({ "type": "text", "text": text })],
        };
        all.append(&mut parts);
        *content = all.into();
        return;
    }
    let content = match parts.as_slice() {
        [only] => only.get("text").cloned().unwrap_or_else(|| json!([only])),
        _ => parts.into(),
    };
    messages.push(json!({ "role": "user", "content": content }));
}

fn part(attachment: &Attachment) -> Value {
    if DOCUMENTS.contains(&attachment.media_type.as_str()) {
        let file = json!({ "filename": file_name(attachment), "file_data": data_url(attachment) });
        return json!({ "type": "file", "file": file });
    }
    json!({ "type": "image_url", "image_url": { "url": data_url(attachment) } })
}

pub(super) fn file_name(attachment: &Attachment) -> &str {
    attachment.name.as_deref().unwrap_or(UNNAMED)
}

pub(super) fn data_url(attachment: &Attachment) -> String {
    format!("data:{};base64,{}", attachment.media_type, BASE64_STANDARD.encode(&attachment.data))
}

#[cfg(test)]
mod tests;
