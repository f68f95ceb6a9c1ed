//! The Anthropic Messages API: requests and responses, as pure functions. Content blocks of an unknown type are
//! kept and sent back unmodified: thinking is signed, and the API requires it unmodified.

mod format;
mod reply;
mod request;
mod stream;
mod thinking;

use serde_json::{Map, Value};

use super::codes::reported_error;
use super::dialect::{Dialect, Fold, Terms};
use super::ends::{self, Ends};
use super::error::Failure;
use super::files::Takes;
use super::models::{ANTHROPIC, Listing};
use super::output::Formats;
use super::{Ask, Turn, Usage};

/// The name in [`PROVIDERS`](super::PROVIDERS).
pub(super) const NAME: &str = "anthropic";

/// The Messages API.
pub(super) struct Anthropic;

impl Dialect for Anthropic {
    fn path(&self, _model: &str, _stream: bool) -> String {
        "messages".into()
    }

    fn listing(&self) -> Listing {
        ANTHROPIC
    }

    fn models_path(&self) -> &'static str {
        "models"
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("x-api-key", key.to_owned())
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn reserved(&self) -> &'static [&'static str] {
        &["messages", "model", "stream", "system", "tools"]
    }

    fn formats(&self, model: &str, _is_vendor: bool) -> Formats {
        format::formats(model)
    }

    fn vendor(&self) -> &'static str {
        NAME
    }

    fn id_bytes(&self, _terms: &Terms) -> usize {
        64
    }

    fn settle(&self, body: &mut Map<String, Value>, model: &str) {
        thinking::settle(body, model);
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn files(&self, _terms: &Terms) -> &'static Takes {
        &request::TAKES
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
        let end = self.end(body.get("stop_reason").and_then(Value::as_str).unwrap_or_default());
        let blocks = body.get("content").and_then(Value::as_array);
        let blocks = blocks.ok_or_else(|| Failure::Malformed("there is no list `content`".into()))?;
        let reply = reply::decode(blocks, end.is_cut(), ask.calls());
        self.turn(ask, &body, reply, &end)
    }

    fn ends(&self) -> Ends {
        ends::ANTHROPIC
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

#[cfg(test)]
mod tests;
