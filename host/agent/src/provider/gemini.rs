//! Gemini's `generateContent`: what to send and what an answer means. Pure. The parts of an answer go
//! back as they came, with their signatures: newer models refuse a conversation without them.

mod files;
mod format;
mod reply;
mod request;
mod stream;

use serde_json::{Map, Value};

use super::codes::reported_error;
use super::dialect::{Dialect, End, Fold, Terms};
use super::ends::{self, Ends};
use super::error::{Failure, excerpt};
use super::files::Takes;
use super::models::{GEMINI, Listing};
use super::output::Formats;
use super::{Ask, Reply, Turn, Usage};

/// The name in [`PROVIDERS`](super::PROVIDERS).
pub(super) const NAME: &str = "gemini";

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

    fn vendor(&self) -> &'static str {
        NAME
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
        let text = |key| candidate.get(key).and_then(Value::as_str);
        let detail = text("finishMessage").map(|message| format!(": {message}")).unwrap_or_default();
        let end = End { detail: &detail, ..self.end(text("finishReason").unwrap_or_default()) };
        // A turn that was cut off or held back before its first word has no parts, or no content.
        let parts = candidate.pointer("/content/parts").and_then(Value::as_array);
        let reply = reply::decode(parts.map(Vec::as_slice).unwrap_or_default(), end.is_cut(), ask.calls());
        self.turn(ask, &body, reply, &end)
    }

    fn ends(&self) -> Ends {
        ends::GEMINI
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

/// An id that the vendor gave to a call; haft's own are for itself.
fn own_id(reply: &Reply, index: usize) -> Option<&str> {
    let parts = reply.raw.get("parts")?.as_array()?;
    let mut calls = parts.iter().filter_map(|part| part.get("functionCall"));
    calls.nth(index)?.get("id")?.as_str()
}

#[cfg(test)]
mod tests;
