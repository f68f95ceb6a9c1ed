//! OpenAI's Responses API, the one that its current models take tools on: what to send and what an answer means.
//! Pure. Nothing is stored with the vendor (`store = false`): what the model thought comes back encrypted, and goes
//! out again with the next request, unchanged.

mod reply;
mod request;
mod stream;

use serde_json::{Map, Value, json};

use super::body::reported_error;
use super::dialect::{Dialect, Fold, Terms};
use super::error::{Failure, excerpt};
use super::files::Takes;
use super::models::{Listing, OPENAI};
use super::openai::{TAKES, format};
use super::output::Formats;
use super::{Ask, Stop, Turn, Usage};

/// Whose messages are sent back unchanged: not those of the same vendor's chat completions.
pub(super) const VENDOR: &str = "openai-responses";

/// The Responses API.
pub(super) struct Responses;

impl Dialect for Responses {
    fn path(&self, _model: &str, _stream: bool) -> String {
        "responses".into()
    }

    fn listing(&self) -> Listing {
        OPENAI
    }

    fn models_path(&self) -> &'static str {
        "models"
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }

    fn reserved(&self) -> &'static [&'static str] {
        // The rest would keep the conversation with the vendor, or go on without haft.
        &[
            "background",
            "conversation",
            "input",
            "instructions",
            "model",
            "previous_response_id",
            "store",
            "stream",
            "tools",
        ]
    }

    fn formats(&self, _model: &str, is_vendor: bool) -> Formats {
        if is_vendor { Formats::BesideTools } else { Formats::Alone }
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn files(&self, _terms: &Terms) -> &'static Takes {
        &TAKES
    }

    fn request(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
        let mut body = request::body(ask, terms);
        if let Some(output) = ask.format(self.formats(ask.model, terms.is_vendor)) {
            body.insert("text".into(), json!({ "format": format::text(output, terms.is_vendor) }));
        }
        body
    }

    fn decode(&self, ask: &Ask<'_>, body: Value) -> Result<Turn, Failure> {
        reported_error(&body)?;
        let status = body.get("status").and_then(Value::as_str).unwrap_or_default();
        if matches!(status, "failed" | "cancelled" | "queued" | "in_progress") {
            let detail = format!("the response is `{status}`, and no error says why");
            return Err(Failure::Botched(detail));
        }
        let output = body.get("output").and_then(Value::as_array);
        let output = output.ok_or_else(|| Failure::Malformed("there is no list `output`".into()))?;
        let stop = stop(&body, output);
        let reply = reply::decode(output, stop == Stop::Length, ask.calls());
        if reply.is_empty() && stop == Stop::Done {
            let detail = format!("neither text nor a call (status `{}`)", excerpt(status));
            return Err(Failure::Empty(detail));
        }
        Ok(self.turn(ask, &body, reply, stop))
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

fn stop(body: &Value, output: &[Value]) -> Stop {
    match body.pointer("/incomplete_details/reason").and_then(Value::as_str) {
        Some("max_output_tokens") => Stop::Length,
        Some("content_filter") => Stop::Filtered,
        _ if output.iter().any(|item| reply::refusal(item).is_some()) => Stop::Refused,
        // `completed`, and what will be added: the calls are what counts.
        _ => Stop::Done,
    }
}

/// A message of the person or the model, in the form that needs no id.
fn message(role: &str, content: impl Into<Value>) -> Value {
    json!({ "role": role, "content": content.into() })
}

#[cfg(test)]
mod tests;
