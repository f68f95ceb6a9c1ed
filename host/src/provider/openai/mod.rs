//! OpenAI's chat completions, which most local servers speak too: what to send and what an
//! answer means. Pure, and lenient in what it takes: a key it does not know is no reason to
//! lose a turn.

mod reply;

use serde_json::{Map, Value, json};

use super::error::{Failure, excerpt};
use super::{Ask, Dialect, Exchange, Message, Stop, Turn, Usage};
use crate::call::{ToolDef, ToolResult};

/// The chat completions API.
pub(super) struct OpenAi;

impl Dialect for OpenAi {
    fn path(&self) -> &'static str {
        "chat/completions"
    }

    fn models_path(&self) -> &'static str {
        "models"
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }

    fn reserved(&self) -> &'static [&'static str] {
        &["messages", "model", "n", "stream", "tools"]
    }

    fn request(&self, ask: &Ask<'_>) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("model".into(), ask.model.into());
        body.insert("messages".into(), messages(ask).into());
        // An empty list is an error for OpenAI and makes some servers switch to a tool prompt.
        if !ask.tools.is_empty() {
            body.insert("tools".into(), ask.tools.iter().map(|def| tool(def)).collect());
        }
        body
    }

    fn decode(&self, ask: &Ask<'_>, body: &[u8]) -> Result<Turn, Failure> {
        let body: Value = serde_json::from_slice(body).map_err(|error| unreadable(&error, body))?;
        reported_error(&body)?;
        let choices = body.get("choices").and_then(Value::as_array);
        let choice =
            choices.and_then(|all| all.first()).ok_or_else(|| Failure::Empty("no choices".into()))?;
        reported_error(choice)?;
        let message = choice.get("message").and_then(Value::as_object);
        let message =
            message.ok_or_else(|| Failure::Malformed("the choice has no `message` object".into()))?;
        let finish = choice.get("finish_reason").and_then(Value::as_str).unwrap_or_default();
        let reply = reply::decode(message, finish == "length", ask.calls());
        let stop = stop(finish, message);
        if reply.calls.is_empty() && reply.text.is_empty() && stop == Stop::Done {
            let detail = format!("neither text nor a call (finish reason `{}`)", excerpt(finish));
            return Err(Failure::Empty(detail));
        }
        let model = body.get("model").and_then(Value::as_str).filter(|name| !name.is_empty());
        Ok(Turn { reply, stop, usage: usage(&body), model: model.unwrap_or(ask.model).to_owned() })
    }
}

/// The system message, where there is one, and the conversation.
fn messages(ask: &Ask<'_>) -> Vec<Value> {
    let mut messages = Vec::new();
    if !ask.system.is_empty() {
        messages.push(json!({ "role": "system", "content": ask.system }));
    }
    for message in ask.messages {
        match message {
            Message::User(text) => messages.push(json!({ "role": "user", "content": text })),
            Message::Turn(exchange) => push_exchange(&mut messages, exchange),
        }
    }
    messages
}

/// What the model said, then one message for each answer, in the order of the calls.
fn push_exchange(messages: &mut Vec<Value>, exchange: &Exchange) {
    messages.push(exchange.reply().raw.clone());
    for (wanted, result) in exchange.answered() {
        messages.push(json!({ "role": "tool", "tool_call_id": wanted.call.id, "content": content(result) }));
    }
}

/// An answer as text, all that a tool message takes: a failure is told by a word at its
/// start, and what is not text is at least mentioned.
fn content(result: &ToolResult) -> String {
    let told = result.content.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    let prefix = if result.is_error && !told { "Error: " } else { "" };
    let mut text = format!("{prefix}{}", result.content);
    for attachment in &result.attachments {
        let line = format!("\n[not shown: {}, {} bytes]", attachment.media_type, attachment.data.len());
        text.push_str(&line);
    }
    text
}

fn tool(def: &ToolDef) -> Value {
    json!({ "type": "function", "function": def })
}

fn unreadable(error: &serde_json::Error, body: &[u8]) -> Failure {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Failure::Empty("the body has no content".into());
    }
    let start = String::from_utf8_lossy(body.get(..200).unwrap_or(body));
    Failure::Malformed(format!("{error}; it begins with `{}`", excerpt(&start)))
}

/// An `error` in the body of a success: gateways answer so when what stands behind them fails.
fn reported_error(value: &Value) -> Result<(), Failure> {
    match value.get("error") {
        None | Some(Value::Null) => Ok(()),
        Some(error) => {
            let code =
                error.get("code").and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
            let message = error.get("message").unwrap_or(error);
            let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
            let code = code.and_then(|code| u16::try_from(code).ok());
            Err(Failure::Reported { code, message: excerpt(&message) })
        }
    }
}

fn stop(finish: &str, message: &Map<String, Value>) -> Stop {
    match finish {
        "length" => Stop::Length,
        "content_filter" => Stop::Filtered,
        _ if reply::refusal(message).is_some() => Stop::Refused,
        // `stop`, `tool_calls`, and whatever else a server calls it: the calls are what counts.
        _ => Stop::Done,
    }
}

fn usage(body: &Value) -> Usage {
    let count = |path: &str| body.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        input: count("/usage/prompt_tokens"),
        output: count("/usage/completion_tokens"),
        cached: count("/usage/prompt_tokens_details/cached_tokens"),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests;
