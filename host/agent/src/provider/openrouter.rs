//! OpenRouter: OpenAI's format, with models of all vendors, errors inside successful responses, and prices. Pure;
//! what both formats share is in `openai`.

use serde_json::{Map, Value, json};

use super::dialect::{Dialect, Fold, Terms};
use super::error::Failure;
use super::models::{Listing, OPENROUTER};
use super::openai::{OpenAi, format};
use super::output::Formats;
use super::{Ask, Cost, Turn};

/// The name in [`PROVIDERS`](super::PROVIDERS).
pub(super) const NAME: &str = "openrouter";

/// The vendor prefix of models that cache a prompt only on request.
const ASKS_FOR_CACHE: &str = "anthropic/";

/// Beginnings of the models that call tools although their answer is to have a form; others are known to be held to
/// the form at once, or to refuse both together.
const BESIDE_TOOLS: &[&str] = &["anthropic/", "google/gemini-3", "openai/", "x-ai/"];

const OPENAI: OpenAi = OpenAi { vendor: NAME };

/// The chat completions API of OpenRouter.
pub(super) struct OpenRouter;

impl Dialect for OpenRouter {
    fn path(&self, model: &str, stream: bool) -> String {
        OPENAI.path(model, stream)
    }

    fn listing(&self) -> Listing {
        OPENROUTER
    }

    fn tells_cost(&self) -> bool {
        true
    }

    /// Not the list of models, which needs no key.
    fn models_path(&self) -> &'static str {
        "key"
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        OPENAI.key_header(key)
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("x-title", "haft")]
    }

    fn reserved(&self) -> &'static [&'static str] {
        OPENAI.reserved()
    }

    fn formats(&self, model: &str, _is_vendor: bool) -> Formats {
        let is_known = BESIDE_TOOLS.iter().any(|start| model.starts_with(start));
        if is_known { Formats::BesideTools } else { Formats::Alone }
    }

    fn request(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
        let mut body = OPENAI.conversation(ask, terms);
        if let Some(output) = ask.format(self.formats(ask.model, terms.is_vendor)) {
            // Whose model it is in the end may take nothing but objects.
            body.insert("response_format".into(), format::response(output, true));
        }
        // What it cost is told with the usage then, streamed or not.
        body.shift_remove("stream_options");
        body.insert("usage".into(), json!({ "include": true }));
        if let Some(effort) = body.shift_remove("reasoning_effort") {
            body.insert("reasoning".into(), json!({ "effort": effort }));
        }
        if ask.model.starts_with(ASKS_FOR_CACHE) && !ask.system.is_empty() {
            let text =
                json!([{ "type": "text", "text": ask.system, "cache_control": { "type": "ephemeral" } }]);
            if let Some(content) =
                body.get_mut("messages").and_then(|messages| messages.pointer_mut("/0/content"))
            {
                *content = text;
            }
        }
        body
    }

    fn decode(&self, ask: &Ask<'_>, body: Value) -> Result<Turn, Failure> {
        let cost = body.pointer("/usage/cost").and_then(Value::as_f64);
        let mut turn = OPENAI.decode(ask, body)?;
        turn.usage.cost = cost.map(Cost::of_dollars);
        Ok(turn)
    }

    fn fold(&self) -> Box<dyn Fold> {
        OPENAI.fold()
    }
}
