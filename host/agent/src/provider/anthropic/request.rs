//! Writes a request for Anthropic's messages: who speaks in turn, each call with its answer in the one
//! message that follows, and marks where the vendor may cache what comes again in the next request.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::NAME;
use crate::provider::calls::{echo_arguments, echo_name, is_own};
use crate::provider::dialect::Terms;
use crate::provider::files::{DOCUMENTS, Kind, PICTURES, Takes};
use crate::provider::{Ask, Exchange, Message, Reply, schema};
use haft_core::call::{Attachment, ToolDef, ToolResult};
use haft_core::model::Effort;

/// The default `max_tokens` of an answer, since the API requires a number: of what the models of the fourth generation
/// and later write at most, the least, so that a long file is written in one call.
const MAX_TOKENS: u32 = 32_000;
/// The default of models that write less, and of those that are not the vendor's, by what is in their names.
const LESS_TOKENS: &[(&str, u32)] = &[
    ("claude-3-5", 8192),
    ("claude-3-7", MAX_TOKENS),
    ("claude-3", 4096),
    ("claude", MAX_TOKENS),
    ("", 8192),
];
/// Models that are told how many tokens to think, not how hard.
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
/// Tokens to think that the API takes, at least.
const LEAST_BUDGET: u32 = 1024;
/// Messages at the end that are marked as worth caching: the last, and the one before it that the
/// last request ended with. With the one for system prompt and tools, one less than may be marked.
const MARKED: usize = 2;
/// What stands for the words of a failure that has none: the API refuses one without.
pub(super) const NO_WORDS: &str = "(no output)";
/// What is said of a failure with files: beside the mark of one the API takes text alone, and a picture of what went
/// wrong tells a model more than the mark.
const FAILED: &str = "[The call failed.]";
/// 5 MB a picture, 32 MB and 100 pictures a request, as the vendor publishes them; the rest of a request is text.
pub(super) const TAKES: Takes = Takes {
    kinds: &[
        Kind { media_types: PICTURES, most: 5 << 20 },
        Kind { media_types: DOCUMENTS, most: usize::MAX },
    ],
    total: 28 << 20,
    count: 100,
};

/// The body.
pub(super) fn body(ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".into(), ask.model.into());
    let most = terms.max_tokens.unwrap_or_else(|| max_tokens(ask.model));
    body.insert("max_tokens".into(), most.into());
    // The cache holds what comes first: tools, then the system prompt, then messages.
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

fn max_tokens(model: &str) -> u32 {
    let known = LESS_TOKENS.iter().find(|(name, _)| model.contains(name));
    known.map_or(MAX_TOKENS, |(_, most)| *most)
}

/// How much the model thinks: current models are told a level, those before them a count of tokens, which has to be
/// less than `most`.
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
        // As much is left for the answer.
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

/// Whether a model is told how many tokens to think, and does not think otherwise.
pub(super) fn is_by_budget(model: &str) -> bool {
    BY_BUDGET.iter().any(|name| model.starts_with(name))
}

/// Says that everything up to here is worth caching.
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
            Message::User(said) => {
                push_user_message(&mut messages, blocks(&said.text, &said.attachments).collect());
            }
            Message::Turn(exchange) => push_exchange(&mut messages, exchange),
        }
    }
    let users = messages.iter_mut().rev().filter(|message| message.get("role") == Some(&"user".into()));
    for message in users.take(MARKED) {
        let blocks = message.get_mut("content").and_then(Value::as_array_mut);
        mark(blocks.and_then(|blocks| blocks.last_mut()));
    }
    messages
}

/// Adds what a person or a tool says. Answers of tools and what is said after them are one message,
/// the answers first.
fn push_user_message(messages: &mut Vec<Value>, blocks: Vec<Value>) {
    let last = messages.last_mut().filter(|last| last.get("role") == Some(&"user".into()));
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

/// The message of a reply that another vendor gave.
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

/// The text, with the files before it.
fn content(result: &ToolResult) -> Value {
    let is_blank = result.content.trim().is_empty();
    match result.attachments.as_slice() {
        [] if result.is_error && is_blank => NO_WORDS.into(),
        [] => result.content.as_str().into(),
        files if result.is_error => blocks(format!("{FAILED}\n{}", result.content).trim(), files).collect(),
        files => blocks(&result.content, files).collect(),
    }
}

/// Files come first: the vendor's models read them better so.
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
