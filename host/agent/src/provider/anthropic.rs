//! The Anthropic Messages API: requests and responses, as pure functions. Content blocks of an unknown type
//! are kept and sent back unmodified: thinking is signed, and the API requires it unmodified. The API checks
//! the thinking parameter and the conversation together, so both are made consistent here.

mod stream;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::calls::{echo_arguments, echo_name, is_own};
use super::codes::reported_error;
use super::dialect::{self, Api, Dialect, Fold, Terms};
use super::error::Failure;
use super::files::{DOCUMENTS, Kind, PICTURES, Takes};
use super::models::ANTHROPIC;
use super::output::{Formats, Narrow, OutputSchema};
use super::{Ask, Exchange, Message, Reply, Turn, Usage, schema};
use haft_core::call::{Attachment, ToolDef, ToolResult};
use haft_core::model::Effort;
use haft_core::net::Framing;

pub(super) const NAME: &str = "anthropic";

const API: Api = Api {
    listing: ANTHROPIC,
    models_path: "models",
    key: ("x-api-key", ""),
    headers: &[("anthropic-version", "2023-06-01")],
    reserved: &["messages", "model", "stream", "system", "tools"],
    framing: Framing::Events,
    vendor: NAME,
    is_shared: true,
    tells_cost: false,
    ends: dialect::ANTHROPIC,
    path: "messages",
    id_bytes: [64; 2],
    files: [&TAKES; 2],
};

pub(super) struct Anthropic;

impl Dialect for Anthropic {
    fn api(&self) -> Api {
        API
    }

    /// Models of other names are not the vendor's.
    fn formats(&self, model: &str, _is_vendor: bool) -> Formats {
        let has = model.starts_with("claude-") && !WITHOUT.iter().any(|name| model.starts_with(name));
        if has { Formats::BesideTools } else { Formats::Never }
    }

    /// Removes all thinking blocks if thinking is off: disabled, not requested, or enabled although the open turn began
    /// without it. In the last case, removes the parameter too.
    fn settle(&self, body: &mut Map<String, Value>, model: &str) {
        let mode =
            body.get("thinking").and_then(|thinking| thinking.get("type")?.as_str()).map(str::to_owned);
        let messages = body.get_mut("messages").and_then(Value::as_array_mut);
        let Some(messages) = messages else { return };
        let is_off = match mode.as_deref() {
            Some("enabled") => {
                open_turn(messages).is_some_and(|first| !first.pointer("/content/0").is_some_and(is_thought))
            }
            Some("disabled") => true,
            // Later models think by default.
            _ => mode.is_none() && is_by_budget(model),
        };
        if !is_off {
            return;
        }
        for message in messages.iter_mut().filter(|message| is_of(message, "assistant")) {
            let Some(content) = message.get_mut("content").and_then(Value::as_array_mut) else { continue };
            content.retain(|block| !is_thought(block));
            if content.is_empty() {
                content.push(json!({ "type": "text", "text": NO_WORDS }));
            }
        }
        if mode.as_deref() == Some("enabled") {
            body.shift_remove("thinking");
        }
    }

    fn conversation(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("model".into(), ask.model.into());
        let most = terms.max_tokens.unwrap_or_else(|| max_tokens(ask.model));
        body.insert("max_tokens".into(), most.into());
        // The cache key is a prefix in this order: tools, system prompt, messages.
        if !ask.system.is_empty() {
            let mut system = json!([{ "type": "text", "text": ask.system }]);
            mark(system.get_mut(0));
            body.insert("system".into(), system);
        }
        if !ask.tools.is_empty() {
            let mut tools: Vec<_> = ask.tools.iter().map(|def| tool(def)).collect();
            mark(tools.last_mut().filter(|_| ask.system.is_empty()));
            body.insert("tools".into(), tools.into());
        }
        body.insert("messages".into(), messages(ask).into());
        if let Some(effort) = terms.effort {
            body.extend(thinking(ask.model, effort, most).map(|(key, value)| (key.to_owned(), value)));
        }
        if terms.stream {
            body.insert("stream".into(), true.into());
        }
        body
    }

    fn add_schema(&self, body: &mut Map<String, Value>, output: &OutputSchema, _is_vendor: bool) {
        let Some(schema) = SCHEMA.translate(&output.object()) else { return };
        let config = body.entry("output_config").or_insert_with(|| json!({}));
        if let Value::Object(config) = config {
            config.insert("format".into(), json!({ "type": "json_schema", "schema": schema }));
        }
    }

    fn decode(&self, ask: &Ask<'_>, body: Value) -> Result<Turn, Failure> {
        reported_error(&body)?;
        let end = self.end(body.get("stop_reason").and_then(Value::as_str).unwrap_or_default());
        let blocks = body.get("content").and_then(Value::as_array);
        let blocks = blocks.ok_or_else(|| Failure::Malformed("the list `content` is missing".into()))?;
        let reply = stream::decode(blocks, end.is_cut(), ask.calls());
        self.turn(ask, &body, reply, &end)
    }

    fn usage(&self, body: &Value) -> Usage {
        // The vendor's `input_tokens` excludes tokens read from or written to the cache.
        let count = |key: &str| body.get("usage").and_then(|usage| usage.get(key)?.as_u64()).unwrap_or(0);
        let (cached, stored) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
        let input = count("input_tokens").saturating_add(cached).saturating_add(stored);
        Usage { input, output: count("output_tokens"), cached, stored, cost: None }
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::<stream::Message>::default()
    }
}

/// The keywords that the vendor's own client sends; it writes all others into descriptions.
const SCHEMA: Narrow = Narrow {
    keywords: &["allOf", "const"],
    formats: &["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"],
    min_items: 1,
    is_closed: true,
    plain_enums: false,
};

/// Models without structured outputs.
const WITHOUT: &[&str] = &[
    "claude-2",
    "claude-3",
    "claude-instant",
    "claude-opus-4-0",
    "claude-opus-4-2",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
];

const THOUGHTS: &[&str] = &["thinking", "redacted_thinking"];

/// Returns the first message of the open turn: the one after the last prompt of a person.
fn open_turn(messages: &[Value]) -> Option<&Value> {
    let has = |message: &Value, is_meant: &dyn Fn(bool) -> bool| {
        let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
        blocks.map(|block| is_kind(block, "tool_result")).any(is_meant)
    };
    let (last, before) = messages.split_last()?;
    if !is_of(last, "assistant") && !has(last, &|is_answer| is_answer) {
        return None;
    }
    let is_prompt = |message: &Value| is_of(message, "user") && has(message, &|is_answer| !is_answer);
    let begin = before.iter().rposition(is_prompt).map_or(0, |place| place + 1);
    messages.get(begin..)?.iter().find(|message| is_of(message, "assistant"))
}

fn is_thought(block: &Value) -> bool {
    THOUGHTS.iter().any(|kind| is_kind(block, kind))
}

fn is_kind(block: &Value, kind: &str) -> bool {
    block.get("type").and_then(Value::as_str) == Some(kind)
}

fn is_of(message: &Value, role: &str) -> bool {
    message.get("role").and_then(Value::as_str) == Some(role)
}

// Writes a request: roles in turn, the answers to calls in the message that follows the calls, and cache marks on the
// parts that the next request repeats.

/// The default `max_tokens`, because the API requires a number: the smallest output limit of the models of the
/// fourth generation and later, so that a long file fits one call.
const MAX_TOKENS: u32 = 32_000;
/// The defaults by the first matching part of the model name, for smaller models and those of other vendors.
const LESS_TOKENS: &[(&str, u32)] = &[
    ("claude-3-5", 8192),
    ("claude-3-7", MAX_TOKENS),
    ("claude-3", 4096),
    ("claude", MAX_TOKENS),
    ("", 8192),
];
/// Models with a thinking budget in tokens instead of an effort level.
const BY_BUDGET: &[&str] = &[
    "claude-3-7",
    "claude-haiku-4-5",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
];
/// The smallest thinking budget that the API accepts, in tokens.
const LEAST_BUDGET: u32 = 1024;
/// The number of messages at the end with a cache mark: the last message, and the last message of the previous
/// request. With the mark for system prompt and tools, this is one less than the limit of the API.
const MARKED: usize = 2;
/// The text of a failure without text, because the API rejects an empty text.
const NO_WORDS: &str = "(no output)";
/// The text that marks a failure with files: an error result accepts text alone, and a picture of the failure helps
/// a model more than the error flag.
const FAILED: &str = "[The call failed.]";
/// The published limits: 5 MB per picture, 32 MB and 100 pictures per request; the difference is for text.
const TAKES: Takes = Takes {
    kinds: &[
        Kind { media_types: PICTURES, most: 5 << 20 },
        Kind { media_types: DOCUMENTS, most: usize::MAX },
    ],
    total: 28 << 20,
    count: 100,
};

fn max_tokens(model: &str) -> u32 {
    let known = LESS_TOKENS.iter().find(|(name, _)| model.contains(name));
    known.map_or(MAX_TOKENS, |(_, most)| *most)
}

/// Returns the thinking parameter: an effort level for current models, a token budget less than `most` for earlier
/// ones.
fn thinking(model: &str, effort: Effort, most: u32) -> Option<(&'static str, Value)> {
    let off = ("thinking", json!({ "type": "disabled" }));
    let level = |level: &str| ("output_config", json!({ "effort": level }));
    if is_by_budget(model) {
        let tokens: u32 = match effort {
            Effort::None => return Some(off),
            Effort::Minimal => LEAST_BUDGET,
            Effort::Low => 2048,
            Effort::Medium => 8192,
            Effort::High => 16_384,
            Effort::XHigh | Effort::Max => 32_768,
        };
        // At least half of the limit remains for the answer.
        let tokens = tokens.min(most / 2);
        let enabled = || ("thinking", json!({ "type": "enabled", "budget_tokens": tokens }));
        return (tokens >= LEAST_BUDGET).then(enabled);
    }
    Some(match effort {
        Effort::None => off,
        Effort::Minimal => level("low"),
        other => level(other.as_str()),
    })
}

/// Returns whether the model has a thinking budget in tokens, and does not think without one.
fn is_by_budget(model: &str) -> bool {
    BY_BUDGET.iter().any(|name| model.starts_with(name))
}

/// Marks the prefix up to `block` as cacheable.
fn mark(block: Option<&mut Value>) {
    if let Some(block) = block.and_then(Value::as_object_mut) {
        block.insert("cache_control".into(), json!({ "type": "ephemeral" }));
    }
}

fn tool(def: &ToolDef) -> Value {
    let schema = schema::plain_object(&def.parameters);
    json!({ "name": def.name, "description": def.description, "input_schema": schema })
}

fn messages(ask: &Ask<'_>) -> Vec<Value> {
    let mut messages = Vec::new();
    for message in ask.messages {
        match message {
            Message::User(prompt) => {
                push_user_message(&mut messages, blocks(&prompt.text, &prompt.attachments).collect());
            }
            Message::Turn(exchange) => push_exchange(&mut messages, exchange),
        }
    }
    let users = messages.iter_mut().rev().filter(|message| is_of(message, "user"));
    for message in users.take(MARKED) {
        let blocks = message.get_mut("content").and_then(Value::as_array_mut);
        mark(blocks.and_then(|blocks| blocks.last_mut()));
    }
    messages
}

/// Adds blocks of the user role. The answers of tools and the prompt after them form one message, answers first.
fn push_user_message(messages: &mut Vec<Value>, blocks: Vec<Value>) {
    let last = messages.last_mut().filter(|last| is_of(last, "user"));
    match last.and_then(|last| last.get_mut("content")?.as_array_mut()) {
        Some(content) => content.extend(blocks),
        None => messages.push(json!({ "role": "user", "content": blocks })),
    }
}

fn push_exchange(messages: &mut Vec<Value>, exchange: &Exchange) {
    let reply = exchange.reply();
    let message = if is_own(reply, NAME) { reply.raw.clone() } else { rebuilt(reply) };
    let has_content = message.get("content").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    if has_content {
        messages.push(message);
    }
    let answers: Vec<_> =
        exchange.answered().map(|(requested, result)| answer(&requested.call.id, result)).collect();
    if !answers.is_empty() {
        push_user_message(messages, answers);
    }
}

/// Returns the message for a reply of another vendor.
fn rebuilt(reply: &Reply) -> Value {
    let text = Some(&reply.text).filter(|text| !text.trim().is_empty());
    let text = text.map(|text| json!({ "type": "text", "text": text }));
    let calls = reply.calls.iter().map(|requested| {
        json!({
            "type": "tool_use",
            "id": requested.call.id,
            "name": echo_name(&requested.call.tool),
            "input": echo_arguments(requested),
        })
    });
    let content: Vec<_> = text.into_iter().chain(calls).collect();
    json!({ "role": "assistant", "content": content })
}

fn answer(id: &str, result: &ToolResult) -> Value {
    let mut answer = json!({ "type": "tool_result", "tool_use_id": id, "content": content(result) });
    let is_marked = result.is_error && result.attachments.is_empty();
    if let Some(answer) = answer.as_object_mut().filter(|_| is_marked) {
        answer.insert("is_error".into(), true.into());
    }
    answer
}

/// Returns the text, preceded by the files.
fn content(result: &ToolResult) -> Value {
    let is_blank = result.content.trim().is_empty();
    match result.attachments.as_slice() {
        [] if result.is_error && is_blank => NO_WORDS.into(),
        [] => result.content.as_str().into(),
        files if result.is_error => blocks(format!("{FAILED}\n{}", result.content).trim(), files).collect(),
        files => blocks(&result.content, files).collect(),
    }
}

/// Returns the blocks, files first: the vendor's models read them better in this order.
fn blocks(text: &str, attachments: &[Attachment]) -> impl Iterator<Item = Value> {
    let text = Some(text).filter(|text| attachments.is_empty() || !text.trim().is_empty());
    let text = text.map(|text| json!({ "type": "text", "text": text }));
    attachments.iter().map(block).chain(text)
}

fn block(attachment: &Attachment) -> Value {
    let data = BASE64_STANDARD.encode(&attachment.data);
    let source = json!({ "type": "base64", "media_type": attachment.media_type, "data": data });
    if !DOCUMENTS.contains(&attachment.media_type.as_str()) {
        return json!({ "type": "image", "source": source });
    }
    let mut document = json!({ "type": "document", "source": source });
    if let (Some(document), Some(name)) = (document.as_object_mut(), &attachment.name) {
        document.insert("title".into(), name.as_str().into());
    }
    document
}

#[cfg(test)]
mod tests;
