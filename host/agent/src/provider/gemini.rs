//! Gemini's `generateContent`: what to send and what an answer means. Pure. The parts of an answer go
//! back as they came, with their signatures: newer models refuse a conversation without them.

mod files;
mod format;
mod reply;
mod request;
mod stream;

use serde_json::{Map, Value};

use super::body::reported_error;
use super::dialect::{Dialect, Fold, Terms};
use super::error::{Failure, excerpt};
use super::files::Takes;
use super::models::{GEMINI, Listing};
use super::output::Formats;
use super::{Ask, Reply, Stop, Turn, Usage};

/// The name in [`PROVIDERS`](super::PROVIDERS).
pub(super) const NAME: &str = "gemini";

/// Reasons to end that say nothing against the question, and leave the turn without its calls or its end, whatever
/// text came before: asked again, the model may do better.
const BOTCHED: &[&str] = &[
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "MALFORMED_RESPONSE",
    "MISSING_THOUGHT_SIGNATURE",
    "TOO_MANY_TOOL_CALLS",
    "OTHER",
];
/// Reasons to hold back the rest.
const FILTERS: &[&str] = &[
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
];

/// The `generateContent` API.
pub(super) struct Gemini;

impl Dialect for Gemini {
    fn path(&self, model: &str, stream: bool) -> String {
        let model = model.strip_prefix("models/").unwrap_or(model);
        let method = if stream { "streamGenerateContent" } else { "generateContent" };
        format!("models/{model}:{method}")
    }

    fn query(&self, stream: bool) -> Option<(&'static str, &'static str)> {
        stream.then_some(("alt", "sse"))
    }

    fn listing(&self) -> Listing {
        GEMINI
    }

    fn models_path(&self) -> &'static str {
        "models"
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("x-goog-api-key", key.to_owned())
    }

    fn reserved(&self) -> &'static [&'static str] {
        &["contents", "systemInstruction", "system_instruction", "tools"]
    }

    fn formats(&self, model: &str, _is_vendor: bool) -> Formats {
        format::formats(model)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn files(&self, _terms: &Terms) -> &'static Takes {
        &files::TAKES
    }

    fn request(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
        let mut body = request::body(ask, terms);
        if let Some(output) = ask.format(self.formats(ask.model, terms.is_vendor)) {
            format::add(&mut body, output);
        }
        body
    }

    fn decode(&self, ask: &Ask<'_>, body: Value) -> Result<Turn, Failure> {
        reported_error(&body)?;
        let candidate = body.get("candidates").and_then(|all| all.get(0));
        let candidate = candidate.ok_or_else(|| without_candidate(&body))?;
        let reason = candidate.get("finishReason").and_then(Value::as_str).unwrap_or_default();
        let stop = stop(reason);
        // A turn that was cut off or held back before its first word has no parts, or no content.
        let parts = candidate.pointer("/content/parts").and_then(Value::as_array);
        let reply =
            reply::decode(parts.map(Vec::as_slice).unwrap_or_default(), stop == Stop::Length, ask.calls());
        let is_botched = BOTCHED.contains(&reason) && reply.calls.is_empty();
        if is_botched || (reply.is_empty() && stop == Stop::Done) {
            return Err(nothing(reason, candidate));
        }
        Ok(self.turn(ask, &body, reply, stop))
    }

    fn usage(&self, body: &Value) -> Usage {
        let count =
            |key: &str| body.get("usageMetadata").and_then(|usage| usage.get(key)?.as_u64()).unwrap_or(0);
        Usage {
            input: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
            output: count("candidatesTokenCount").saturating_add(count("thoughtsTokenCount")),
            cached: count("cachedContentTokenCount"),
            ..Usage::default()
        }
    }

    fn answering<'b>(&self, body: &'b Value) -> Option<&'b str> {
        body.get("modelVersion").and_then(Value::as_str).filter(|name| !name.is_empty())
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::<stream::Content>::default()
    }
}

fn stop(reason: &str) -> Stop {
    match reason {
        "MAX_TOKENS" => Stop::Length,
        reason if FILTERS.contains(&reason) => Stop::Filtered,
        _ => Stop::Done,
    }
}

/// Why there is no answer at all.
fn without_candidate(body: &Value) -> Failure {
    let feedback = body.get("promptFeedback");
    let text = |key| feedback.and_then(|feedback| feedback.get(key)?.as_str());
    match text("blockReason") {
        Some(reason) => {
            let message =
                text("blockReasonMessage").map(|message| format!(": {message}")).unwrap_or_default();
            Failure::Blocked(excerpt(&format!("{reason}{message}")))
        }
        None => Failure::Empty("no candidates".into()),
    }
}

/// Why there is nothing in the answer.
fn nothing(reason: &str, candidate: &Value) -> Failure {
    let message = candidate.get("finishMessage").and_then(Value::as_str);
    let message = message.map(|message| format!(": {message}")).unwrap_or_default();
    if BOTCHED.contains(&reason) {
        return Failure::Botched(excerpt(&format!("{reason}{message}")));
    }
    Failure::Empty(format!(
        "neither text nor a call (finish reason `{}`)",
        excerpt(&format!("{reason}{message}"))
    ))
}

/// An id that the vendor gave to a call; haft's own are for itself.
fn own_id(reply: &Reply, index: usize) -> Option<&str> {
    let parts = reply.raw.get("parts")?.as_array()?;
    let mut calls = parts.iter().filter_map(|part| part.get("functionCall"));
    calls.nth(index)?.get("id")?.as_str()
}

#[cfg(test)]
mod tests;
