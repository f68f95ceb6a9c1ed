//! Writes a request for `generateContent`: contents by role, the answers to the calls of a turn in one content, and
//! schemas in the keywords that Gemini supports.

use serde_json::{Map, Value, json};

use super::{NAME, file_part, is_in_answer, own_id};
use crate::provider::calls::{echo_arguments, echo_name, is_own};
use crate::provider::dialect::Terms;
use crate::provider::schema::{self, Subset};
use crate::provider::{Ask, Exchange, Message, Reply};
use haft_core::call::{Attachment, ToolDef, ToolResult};
use haft_core::model::Effort;

/// The vendor's `Schema`, a subset of `OpenAPI` 3.0.
const SCHEMA: Subset = Subset {
    keywords: &[
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "example",
        "anyOf",
        "default",
        "items",
        "minimum",
        "maximum",
    ],
    formats: &[
        ("string", "enum"),
        ("string", "date-time"),
        ("number", "float"),
        ("number", "double"),
        ("integer", "int32"),
        ("integer", "int64"),
    ],
    nullable: true,
    is_strict: true,
};

/// The documented replacement for the signature of a call that a model of another vendor made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) fn body(ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
    let mut body = Map::new();
    if !ask.system.is_empty() {
        body.insert("systemInstruction".into(), json!({ "parts": [{ "text": ask.system }] }));
    }
    if !ask.tools.is_empty() {
        let declarations: Vec<_> = ask.tools.iter().map(|def| declaration(def)).collect();
        body.insert("tools".into(), json!([{ "functionDeclarations": declarations }]));
    }
    body.insert("contents".into(), contents(ask).into());
    let mut config = Map::new();
    if let Some(most) = terms.max_tokens {
        config.insert("maxOutputTokens".into(), most.into());
    }
    if let Some(effort) = terms.effort {
        config.insert("thinkingConfig".into(), thinking(ask.model, effort));
    }
    if !config.is_empty() {
        body.insert("generationConfig".into(), config.into());
    }
    body
}

/// Returns the thinking parameter: tokens for the second generation, a level for later ones. The larger models of
/// both cannot turn thinking off.
fn thinking(model: &str, effort: Effort) -> Value {
    let is_pro = model.contains("pro");
    if model.contains("gemini-2") {
        let tokens = match effort {
            Effort::None if !is_pro => 0,
            Effort::None | Effort::Minimal => 512,
            Effort::Low => 2048,
            Effort::Medium => 8192,
            Effort::High | Effort::XHigh | Effort::Max => 24_576,
        };
        return json!({ "thinkingBudget": tokens });
    }
    let level = match effort {
        Effort::None | Effort::Minimal if !is_pro => "minimal",
        Effort::None | Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High | Effort::XHigh | Effort::Max => "high",
    };
    json!({ "thinkingLevel": level })
}

/// Returns the declaration of a tool. Arguments that the vendor's schema cannot express are declared in JSON
/// Schema, which newer models accept instead.
fn declaration(def: &ToolDef) -> Value {
    let mut declaration = json!({ "name": def.name, "description": def.description });
    let (key, schema) = match SCHEMA.translate(&def.parameters) {
        Some(schema) => ("parameters", Value::from(schema)),
        None => ("parametersJsonSchema", schema::plain_object(&def.parameters)),
    };
    let takes_none = schema.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty);
    // The API rejects an object without properties.
    if let Some(declaration) = declaration.as_object_mut().filter(|_| !takes_none) {
        declaration.insert(key.into(), schema);
    }
    declaration
}

fn contents(ask: &Ask<'_>) -> Vec<Value> {
    let mut contents = Vec::new();
    for message in ask.messages {
        match message {
            Message::User(prompt) => {
                let text = json!({ "text": prompt.text });
                let parts = std::iter::once(text).chain(prompt.attachments.iter().map(file_part));
                contents.push(json!({ "role": "user", "parts": parts.collect::<Vec<_>>() }));
            }
            Message::Turn(exchange) => push_exchange(&mut contents, exchange, ask.model),
        }
    }
    contents
}

fn push_exchange(contents: &mut Vec<Value>, exchange: &Exchange, model: &str) {
    let reply = exchange.reply();
    let is_own = is_own(reply, NAME);
    let content = if is_own { reply.raw.clone() } else { rebuilt(reply) };
    if content.get("parts").and_then(Value::as_array).is_some_and(|parts| !parts.is_empty()) {
        contents.push(content);
    }
    let (mut parts, mut others) = (Vec::new(), Vec::new());
    for (index, (requested, result)) in exchange.answered().enumerate() {
        let id = Some(reply).filter(|_| is_own).and_then(|reply| own_id(reply, index));
        let name = echo_name(&requested.call.tool);
        let (inside, beside): (Vec<_>, Vec<_>) =
            result.attachments.iter().partition(|attachment| is_in_answer(model, attachment));
        parts.push(answer(id, &name, result, &inside));
        if !beside.is_empty() {
            others.push(json!({ "text": format!("[Files of the answer of `{name}`:]") }));
            others.extend(beside.into_iter().map(file_part));
        }
    }
    // The files follow all answers: the vendor expects as many leading parts as there were calls.
    parts.append(&mut others);
    if !parts.is_empty() {
        contents.push(json!({ "role": "user", "parts": parts }));
    }
}

/// Returns the content for a reply of another vendor.
fn rebuilt(reply: &Reply) -> Value {
    let text = Some(&reply.text).filter(|text| !text.is_empty()).map(|text| json!({ "text": text }));
    let calls = reply.calls.iter().map(|requested| {
        let call = json!({ "name": echo_name(&requested.call.tool), "args": echo_arguments(requested) });
        json!({ "functionCall": call, "thoughtSignature": NO_SIGNATURE })
    });
    let parts: Vec<_> = text.into_iter().chain(calls).collect();
    json!({ "role": "model", "parts": parts })
}

/// Returns an answer: its key distinguishes output from error.
fn answer(id: Option<&str>, name: &str, result: &ToolResult, inside: &[&Attachment]) -> Value {
    let key = if result.is_error { "error" } else { "output" };
    let mut answer = json!({ "name": name, "response": { key: result.content } });
    if let Some(answer) = answer.as_object_mut() {
        if let Some(id) = id {
            answer.insert("id".into(), id.into());
        }
        if !inside.is_empty() {
            answer.insert("parts".into(), inside.iter().copied().map(file_part).collect());
        }
    }
    json!({ "functionResponse": answer })
}
