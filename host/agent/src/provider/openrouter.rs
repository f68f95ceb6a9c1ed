//! OpenRouter: OpenAI's format with models of all vendors, errors inside successful responses, and prices. Pure;
//! the common parts are in `openai`.

use serde_json::{Map, Value, json};

use super::dialect::{Api, Dialect, Fold, Terms};
use super::error::Failure;
use super::models::OPENROUTER;
use super::openai::{OpenAi, TAKES};
use super::output::{Formats, OutputSchema};
use super::{Ask, Cost, Turn, Usage, calls};

pub(super) const NAME: &str = "openrouter";

/// The prefix of models that cache a prompt only on request.
const ASKS_FOR_CACHE: &str = "anthropic/";

/// The prefixes of models that call tools in a request with a schema; other models answer immediately in the
/// schema, or reject the combination.
const BESIDE_TOOLS: &[&str] = &["anthropic/", "google/gemini-3", "openai/", "x-ai/"];

/// The number of messages at the end with a cache mark. With the system prompt, one less than the limit.
const MARKED: usize = 2;

const OPENAI: OpenAi = OpenAi { vendor: NAME };

/// The constants of the API. A check requests the key's data, because the list of models needs no key.
const API: Api = Api {
    listing: OPENROUTER,
    models_path: "key",
    headers: &[("x-title", "haft")],
    vendor: NAME,
    is_shared: false,
    tells_cost: true,
    id_bytes: [calls::CHOOSY; 2],
    // It reads documents for models that accept none.
    files: [&TAKES; 2],
    ..super::openai::API
};

pub(super) struct OpenRouter;

impl Dialect for OpenRouter {
    fn api(&self) -> Api {
        API
    }

    fn formats(&self, model: &str, _is_vendor: bool) -> Formats {
        let is_known = BESIDE_TOOLS.iter().any(|start| model.starts_with(start));
        if is_known { Formats::BesideTools } else { Formats::Alone }
    }

    /// The model behind the router may accept only objects.
    fn add_schema(&self, body: &mut Map<String, Value>, output: &OutputSchema, _is_vendor: bool) {
        OPENAI.add_schema(body, output, true);
    }

    fn conversation(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
        let mut body = OPENAI.conversation(ask, terms);
        // Requests the cost as a part of the usage, streamed or not.
        body.shift_remove("stream_options");
        body.insert("usage".into(), json!({ "include": true }));
        if let Some(effort) = body.shift_remove("reasoning_effort") {
            body.insert("reasoning".into(), json!({ "effort": effort }));
        }
        if ask.model.starts_with(ASKS_FOR_CACHE)
            && let Some(messages) = body.get_mut("messages").and_then(Value::as_array_mut)
        {
            mark(messages);
        }
        body
    }

    fn decode(&self, ask: &Ask<'_>, body: Value) -> Result<Turn, Failure> {
        let usage = self.usage(&body);
        Ok(Turn { usage, ..OPENAI.decode(ask, body)? })
    }

    fn usage(&self, body: &Value) -> Usage {
        let cost = body.pointer("/usage/cost").and_then(Value::as_f64);
        Usage { cost: cost.map(Cost::of_dollars), ..OPENAI.usage(body) }
    }

    fn fold(&self) -> Box<dyn Fold> {
        OPENAI.fold()
    }
}

/// Marks the ends of the prefixes that the next request repeats: the system prompt (with the tools before it), the
/// last message, and the last message of the previous request.
fn mark(messages: &mut [Value]) {
    let role = |message: &Value| message.get("role").and_then(Value::as_str).unwrap_or_default().to_owned();
    let system = messages.iter().position(|message| role(message) == "system");
    let others = messages.iter().enumerate().rev();
    let asked = others.filter(|(_, message)| matches!(role(message).as_str(), "user" | "tool"));
    let last: Vec<usize> = asked.map(|(index, _)| index).take(MARKED).collect();
    for index in system.into_iter().chain(last) {
        if let Some(content) = messages.get_mut(index).and_then(|message| message.get_mut("content")) {
            mark_content(content);
        }
    }
}

/// Marks the last text part: the only type of part that accepts a mark for every vendor.
fn mark_content(content: &mut Value) {
    if let Value::String(text) = content {
        *content = json!([{ "type": "text", "text": std::mem::take(text) }]);
    }
    let parts = content.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
    let is_text = |part: &&mut Map<String, Value>| {
        part.get("text").and_then(Value::as_str).is_some_and(|text| !text.is_empty())
    };
    if let Some(last) = parts.filter(is_text).last() {
        last.insert("cache_control".into(), json!({ "type": "ephemeral" }));
    }
}

#[cfg(test)]
mod tests {
    use haft_core::call::{Attachment, ToolCall, ToolResult};

    use super::*;
    use crate::provider::{Exchange, Message, Prompt, Reply, RequestedCall};

    fn turn(id: &str) -> Message {
        let call = ToolCall { id: id.into(), tool: "t".into(), arguments: json!({}) };
        let reply = Reply { calls: vec![RequestedCall { call, problem: None }], ..Reply::default() };
        Message::Turn(Exchange::new(reply, [ToolResult::success(id)]))
    }

    /// G08: during a task the conversation is cached with the system prompt, with at most four marks.
    #[test]
    fn the_conversation_of_anthropic_s_models_is_cached() {
        let attachments = vec![Attachment::new("image/png", vec![0])];
        let messages = [Message::User(Prompt { text: "look".into(), attachments }), turn("a"), turn("b")];
        let at = |model: &str, count: usize| {
            let ask =
                Ask { model, system: "be brief", messages: &messages[..count], tools: &[], output: None };
            let body = Value::from(OpenRouter.request(&ask, &Terms::default()));
            let marked = |message: &Value| message.to_string().contains("cache_control");
            body["messages"].as_array().unwrap().iter().map(marked).collect::<Vec<_>>()
        };
        assert_eq!(at("anthropic/claude-sonnet-4.5", 1), [true, true]);
        assert_eq!(at("anthropic/claude-sonnet-4.5", 2), [true, true, false, true]);
        assert_eq!(at("anthropic/claude-sonnet-4.5", 3), [true, false, false, true, false, true]);
        assert_eq!(at("openai/gpt-5", 3), [false; 6]);
    }
}
