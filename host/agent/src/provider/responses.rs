//! OpenAI's Responses API, which its current models use for tools: requests and responses, as pure functions.
//! Nothing is stored at the vendor (`store = false`): the model's thinking comes back encrypted, and the next
//! request contains it unmodified.

mod reply;
mod request;
mod stream;

use serde_json::{Map, Value, json};

use super::codes::reported_error;
use super::dialect::{Dialect, Fold, Terms};
use super::ends::{self, Ending, Ends};
use super::error::Failure;
use super::files::Takes;
use super::models::{Listing, OPENAI};
use super::openai::{TAKES, format};
use super::output::Formats;
use super::{Ask, Turn, Usage};

/// The vendor of messages that are sent back unmodified; it differs from that of chat completions.
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
        // The other keys would store the conversation at the vendor, or continue it without haft.
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

    fn vendor(&self) -> &'static str {
        VENDOR
    }

    fn id_bytes(&self, _terms: &Terms) -> usize {
        64
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
        let text = |path: &str| body.pointer(path).and_then(Value::as_str);
        let status = text("/status").unwrap_or_default();
        let reason = text("/incomplete_details/reason").filter(|_| status == "incomplete");
        let mut end = self.end(reason.unwrap_or(status));
        let output = body.get("output").and_then(Value::as_array);
        if output.is_none() && end.ending == Ending::Failed {
            return Err(Failure::Botched(format!("the response is `{status}`, and no error says why")));
        }
        let output = output.ok_or_else(|| Failure::Malformed("there is no list `output`".into()))?;
        if end.ending == Ending::Done && output.iter().any(|item| reply::refusal(item).is_some()) {
            end.ending = Ending::Refused;
        }
        let reply = reply::decode(output, end.is_cut(), ask.calls());
        self.turn(ask, &body, reply, &end)
    }

    fn ends(&self) -> Ends {
        ends::RESPONSES
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

/// Returns a message in the form that needs no id.
fn message(role: &str, content: impl Into<Value>) -> Value {
    json!({ "role": role, "content": content.into() })
}

#[cfg(test)]
mod tests;
