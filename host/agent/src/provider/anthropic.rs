//! The Anthropic Messages API: requests and responses, as pure functions. Content blocks of an unknown type
//! are kept and sent back unmodified: thinking is signed, and the API requires it unmodified. The API checks
//! the thinking parameter and the conversation together, so both are made consistent here.

mod request;
mod stream;

use serde_json::{Map, Value, json};

use self::request::{NO_WORDS, is_by_budget};
use super::codes::reported_error;
use super::dialect::{Api, Dialect, Fold, Terms};
use super::ends;
use super::error::Failure;
use super::files::Takes;
use super::models::ANTHROPIC;
use super::output::{Formats, Narrow, OutputSchema};
use super::{Ask, Turn, Usage};
use haft_core::net::Framing;

/// The name in [`PROVIDERS`](super::PROVIDERS).
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
    ends: ends::ANTHROPIC,
};

/// The Messages API.
pub(super) struct Anthropic;

impl Dialect for Anthropic {
    fn api(&self) -> Api {
        API
    }

    fn path(&self, _model: &str, _stream: bool) -> String {
        "messages".into()
    }

    fn formats(&self, model: &str, _is_vendor: bool) -> Formats {
        formats(model)
    }

    fn id_bytes(&self, _terms: &Terms) -> usize {
        64
    }

    fn settle(&self, body: &mut Map<String, Value>, model: &str) {
        settle_thinking(body, model);
    }

    fn files(&self, _terms: &Terms) -> &'static Takes {
        &request::TAKES
    }

    fn request(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
        let mut body = request::body(ask, terms);
        if let Some(output) = ask.format(self.formats(ask.model, terms.is_vendor)) {
            add_schema(&mut body, output);
        }
        body
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
    keywords: &[
        "$defs",
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "description",
        "enum",
        "format",
        "items",
        "minItems",
        "properties",
        "required",
        "title",
        "type",
    ],
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

/// Returns the requests with which the schema is sent: none for models of other names, which are not the vendor's.
fn formats(model: &str) -> Formats {
    let has = model.starts_with("claude-") && !WITHOUT.iter().any(|name| model.starts_with(name));
    if has { Formats::BesideTools } else { Formats::Never }
}

/// Adds the schema to a request, beside other members of `output_config`.
fn add_schema(body: &mut Map<String, Value>, output: &OutputSchema) {
    let Some(schema) = SCHEMA.translate(&output.object()) else { return };
    let config = body.entry("output_config").or_insert_with(|| json!({}));
    if let Value::Object(config) = config {
        config.insert("format".into(), json!({ "type": "json_schema", "schema": schema }));
    }
}

/// The types of thinking blocks.
const THOUGHTS: &[&str] = &["thinking", "redacted_thinking"];

/// Removes all thinking blocks if thinking is off: disabled, not requested, or enabled although the open turn began
/// without it. In the last case, removes the parameter too.
fn settle_thinking(body: &mut Map<String, Value>, model: &str) {
    let mode = body.get("thinking").and_then(|thinking| thinking.get("type")?.as_str()).map(str::to_owned);
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    let Some(messages) = messages else { return };
    let is_off = match mode.as_deref() {
        Some("enabled") => open_turn(messages).is_some_and(|first| !begins_with_thought(first)),
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

fn begins_with_thought(message: &Value) -> bool {
    message.get("content").and_then(|content| content.get(0)).is_some_and(is_thought)
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

#[cfg(test)]
mod tests;
