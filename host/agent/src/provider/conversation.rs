//! Adapts a conversation to a server: leaves out the raw messages of other vendors, converts the ids of calls to
//! the server's form, and makes them unique over all turns. Saved sessions keep the form of their vendors.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use super::calls::fit_id;
use super::{Exchange, Message, Reply};

/// The prompt after a turn of another vendor that was interrupted.
const GO_ON: &str = "[Your last turn was interrupted. Go on.]";
/// The keys of call ids in the raw messages of vendors.
const IDS: &[&str] = &["id", "call_id"];
/// The keys of arguments in raw messages: an id in them is not a call id.
const ARGUMENTS: &[&str] = &["args", "arguments", "input"];

/// The server that a conversation is adapted to.
pub(super) struct Viewer<'s> {
    /// The vendor whose raw messages are sent unmodified.
    pub(super) vendor: &'static str,
    /// The server, for a format that many servers use.
    pub(super) server: Option<&'s str>,
    /// The maximum length of an id in bytes.
    pub(super) id_bytes: usize,
}

impl Viewer<'_> {
    /// Returns `messages` as adapted to this server.
    pub(super) fn view<'m>(&self, messages: Cow<'m, [Message]>) -> Cow<'m, [Message]> {
        let mut used = HashMap::new();
        let changed: Vec<_> = messages.iter().map(|message| self.message(message, &mut used)).collect();
        let is_interrupted = |place: usize| {
            let next = messages.get(place + 1);
            !matches!(next, Some(Message::User(_)))
                && messages.get(place).is_some_and(|turn| self.is_interrupted(turn))
        };
        if changed.iter().all(Option::is_none) && !(0..messages.len()).any(is_interrupted) {
            return messages;
        }
        let mut seen = Vec::new();
        for (place, (changed, message)) in changed.into_iter().zip(messages.iter()).enumerate() {
            seen.push(changed.unwrap_or_else(|| message.clone()));
            seen.extend(is_interrupted(place).then(|| Message::User(GO_ON.into())));
        }
        seen.into()
    }

    fn is_interrupted(&self, message: &Message) -> bool {
        let Message::Turn(exchange) = message else { return false };
        let is_open = exchange.answered().next().is_none();
        exchange.reply().unfinished && is_open && self.is_foreign(exchange.reply())
    }

    fn is_foreign(&self, reply: &Reply) -> bool {
        reply.vendor != self.vendor || self.server.is_some_and(|server| reply.server != server)
    }

    /// Returns the adapted message, if it differs.
    fn message(&self, message: &Message, used: &mut HashMap<String, u32>) -> Option<Message> {
        let Message::Turn(exchange) = message else { return None };
        let reply = exchange.reply();
        let is_foreign = self.is_foreign(reply);
        let ids: Vec<_> =
            reply.calls.iter().map(|requested| self.id(&requested.call.id, is_foreign, used)).collect();
        let is_same = ids.iter().zip(&reply.calls).all(|(id, requested)| *id == requested.call.id);
        if is_same && (!is_foreign || reply.raw.is_null()) {
            return None;
        }
        let mut reply = reply.clone();
        if is_foreign {
            reply.raw = Value::Null;
        }
        for (id, requested) in ids.into_iter().zip(&mut reply.calls) {
            rename(&mut reply.raw, &requested.call.id, &id);
            requested.call.id = id;
        }
        let answers = exchange.answered().map(|(_, result)| result.clone());
        Some(Message::Turn(Exchange::new(reply, answers)))
    }

    fn id(&self, original: &str, is_foreign: bool, used: &mut HashMap<String, u32>) -> String {
        let first = if is_foreign { fit_id(original, self.id_bytes) } else { original.to_owned() };
        // The number of uses of the id: a server may give one id to all its calls.
        let (mut id, mut number) = (first.clone(), used.get(&first).copied().unwrap_or(1));
        while used.contains_key(&id) {
            number += 1;
            id = fit_id(&format!("{original}_{number}"), self.id_bytes);
        }
        used.insert(first, number);
        used.entry(id.clone()).or_insert(1);
        id
    }
}

fn rename(raw: &mut Value, old: &str, new: &str) {
    match raw {
        _ if old == new => {}
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, old, new)),
        Value::Object(object) => {
            for (key, value) in object.iter_mut().filter(|(key, _)| !ARGUMENTS.contains(&key.as_str())) {
                if IDS.contains(&key.as_str()) && value.as_str() == Some(old) {
                    *value = new.into();
                } else {
                    rename(value, old, new);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use haft_core::call::{ToolCall, ToolResult};
    use serde_json::json;

    use super::*;
    use crate::provider::RequestedCall;

    fn viewer(server: &str, id_bytes: usize) -> Viewer<'_> {
        Viewer { vendor: "openai", server: Some(server), id_bytes }
    }

    fn turn(id: &str, vendor: &str) -> Message {
        let call = ToolCall { id: id.into(), tool: "t".into(), arguments: json!({}) };
        let raw = json!({ "reasoning_content": "secret thoughts",
            "tool_calls": [{ "id": id, "function": { "arguments": { "id": id } } }] });
        let reply = Reply {
            text: "so".into(),
            calls: vec![RequestedCall { call, problem: None }],
            raw,
            vendor: vendor.into(),
            server: "http://one".into(),
            ..Reply::default()
        };
        Message::Turn(Exchange::new(reply, [ToolResult::success("x")]))
    }

    fn replies(seen: &[Message]) -> Vec<&Reply> {
        fn reply(message: &Message) -> Option<&Reply> {
            let Message::Turn(exchange) = message else { return None };
            Some(exchange.reply())
        }
        seen.iter().filter_map(reply).collect()
    }

    /// G10: the thinking of a server's model is sent to that server alone; calls and answers are sent to all.
    #[test]
    fn what_one_server_thought_goes_to_no_other() {
        let messages = [Message::User("hi".into()), turn("a", "openai")];
        assert!(matches!(viewer("http://one", 40).view(Cow::Borrowed(&messages)), Cow::Borrowed(_)));
        for other in ["http://two", ""] {
            let seen = viewer(other, 40).view(Cow::Borrowed(&messages));
            assert!(!format!("{seen:?}").contains("thoughts"));
            assert_eq!((replies(&seen)[0].text.as_str(), seen.len()), ("so", 2));
        }
    }

    /// (A03): vendors may number calls again in each turn, and ids may collide after conversion for an API.
    #[test]
    fn ids_are_unique_in_the_whole_conversation_and_fit() {
        let long = "x".repeat(90);
        let ids = ["call_0", "call_0", "call_0", "a.b", "a_b", &long, &long];
        for vendor in ["openai", "anthropic"] {
            let messages: Vec<_> = ids.iter().map(|id| turn(id, vendor)).collect();
            for most in [9, 40, 64] {
                let seen = viewer("http://one", most).view(Cow::Borrowed(&messages));
                let ids: std::collections::HashSet<_> =
                    replies(&seen).iter().map(|reply| reply.calls[0].call.id.clone()).collect();
                assert_eq!(ids.len(), messages.len(), "{vendor} {ids:?}");
                let fits = |id: &String| id.len() <= most && (most > 9 || id.len() == 9);
                assert!(vendor == "openai" || ids.iter().all(fits), "{ids:?}");
                for reply in replies(&seen).iter().filter(|reply| reply.raw.is_object()) {
                    assert_eq!(reply.raw["tool_calls"][0]["id"], reply.calls[0].call.id);
                }
            }
        }
        let twice = [turn("call_0", "openai"), turn("call_0", "openai")];
        let seen = viewer("http://one", 40).view(Cow::Borrowed(&twice));
        assert_eq!(replies(&seen)[1].raw["tool_calls"][0]["id"], "call_0_2");
        assert_eq!(replies(&seen)[1].raw["tool_calls"][0]["function"]["arguments"]["id"], "call_0");
    }

    /// A turn that its vendor would continue is continued by another vendor, too.
    #[test]
    fn a_turn_that_another_vendor_interrupted_is_gone_on_with() {
        let reply =
            Reply { text: "so".into(), vendor: "anthropic".into(), unfinished: true, ..Reply::default() };
        let messages = [Message::User("hi".into()), Message::Turn(Exchange::new(reply, []))];
        let seen = viewer("", 40).view(Cow::Borrowed(&messages));
        assert_eq!(seen.last(), Some(&Message::User(GO_ON.into())));
    }
}
