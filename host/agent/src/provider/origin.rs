//! Which server a reply came from, where many servers speak the format of its vendor. What one server's model thought
//! is not sent to another: it says nothing to it, and may be refused.

use std::borrow::Cow;

use serde_json::Value;

use super::{Exchange, Message};

/// The conversation as `server` is to see it: of the replies of others, the text and the calls alone.
pub(super) fn seen_by<'m>(messages: Cow<'m, [Message]>, server: &str) -> Cow<'m, [Message]> {
    if !messages.iter().any(|message| is_foreign(message, server)) {
        return messages;
    }
    let messages = messages.iter().map(|message| match message {
        Message::Turn(exchange) if is_foreign(message, server) => {
            let mut reply = exchange.reply().clone();
            reply.raw = Value::Null;
            Message::Turn(Exchange::new(reply, exchange.answered().map(|(_, result)| result.clone())))
        }
        own => own.clone(),
    });
    Cow::Owned(messages.collect())
}

fn is_foreign(message: &Message, server: &str) -> bool {
    matches!(message, Message::Turn(exchange) if exchange.reply().server != server && !exchange.reply().raw.is_null())
}

#[cfg(test)]
mod tests {
    use haft_core::call::{ToolCall, ToolResult};
    use serde_json::json;

    use super::*;
    use crate::provider::{Reply, RequestedCall};

    /// G10: what a server's model thought stays with that server; the calls and their answers are everybody's.
    #[test]
    fn g10_what_one_server_thought_goes_to_no_other() {
        let call = ToolCall { id: "a".into(), tool: "t".into(), arguments: json!({}) };
        let reply = Reply {
            text: "so".into(),
            calls: vec![RequestedCall { call, problem: None }],
            raw: json!({ "reasoning_content": "secret thoughts" }),
            server: "http://one".into(),
            ..Reply::default()
        };
        let messages =
            [Message::User("hi".into()), Message::Turn(Exchange::new(reply, [ToolResult::success("x")]))];
        assert!(matches!(seen_by(Cow::Borrowed(&messages), "http://one"), Cow::Borrowed(_)));
        for other in ["http://two", ""] {
            let seen = seen_by(Cow::Borrowed(&messages), other);
            assert!(!format!("{seen:?}").contains("thoughts"));
            let (Message::Turn(seen), Message::Turn(own)) = (&seen[1], &messages[1]) else { panic!() };
            assert!(seen.answered().eq(own.answered()) && seen.reply().text == "so");
        }
    }
}
