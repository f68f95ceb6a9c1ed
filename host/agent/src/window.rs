//! How much of a conversation a model is shown. Refuses to part a call from its answer, to leave out what the person
//! asked for last, and to move the cut at every turn: what providers have cached ends at it.

use std::borrow::Cow;

use crate::provider::{Exchange, Message};

/// Bytes a token, roughly, for every vendor's tokenizer.
const BYTES_PER_TOKEN: usize = 4;

/// Bytes that an image or another file counts for: a large image is some 1,600 tokens with every vendor.
const ATTACHMENT: usize = 1600 * BYTES_PER_TOKEN;

/// Where the cut is in a growing conversation.
pub(super) struct Window {
    /// Bytes that may be shown.
    budget: usize,
    /// Bytes of each message so far.
    costs: Vec<usize>,
    /// The first message that is shown as it is.
    from: usize,
}

impl Window {
    /// Shows up to `budget` rough tokens; everything where there is none.
    pub(super) fn new(budget: Option<u32>) -> Self {
        let budget = budget.and_then(|budget| usize::try_from(budget).ok()).unwrap_or(usize::MAX);
        Self { budget: budget.saturating_mul(BYTES_PER_TOKEN), costs: Vec::new(), from: 0 }
    }

    /// Moves the cut where `messages` have outgrown the budget; how many are left out if it was moved.
    pub(super) fn fit(&mut self, messages: &[Message]) -> Option<usize> {
        let known = self.costs.len();
        self.costs.extend(messages.iter().skip(known).map(cost));
        let mut shown: usize = self.costs.iter().skip(self.from).sum();
        if shown <= self.budget {
            return None;
        }
        let before = self.from;
        // Well below the budget, so that the next cut is many turns away. The last message always stays.
        let aim = self.budget / 2;
        while shown > aim && self.from + 1 < messages.len() {
            shown -= self.costs.get(self.from).copied().unwrap_or_default();
            self.from += 1;
        }
        (self.from > before).then_some(self.from)
    }

    /// What the model is shown of `messages`: what came after the cut, and before it what a person had asked for last.
    pub(super) fn visible<'m>(&self, messages: &'m [Message]) -> Cow<'m, [Message]> {
        if self.from == 0 {
            return Cow::Borrowed(messages);
        }
        let (before, after) = messages.split_at_checked(self.from).unwrap_or((messages, &[]));
        let (asked, rest) = match after.split_first() {
            Some((Message::User(text), rest)) => (Some(text), rest),
            _ => (before.iter().rev().find_map(asked), after),
        };
        let note = format!(
            "[The first {} messages of this conversation are left out here for want of room.]\n\n{}",
            self.from,
            asked.map(String::as_str).unwrap_or_default()
        );
        Cow::Owned(std::iter::once(Message::User(note)).chain(rest.iter().cloned()).collect())
    }
}

fn asked(message: &Message) -> Option<&String> {
    match message {
        Message::User(text) => Some(text),
        Message::Turn(_) => None,
    }
}

fn cost(message: &Message) -> usize {
    match message {
        Message::User(text) => text.len(),
        Message::Turn(exchange) => reply_length(exchange) + answered(exchange),
    }
}

fn reply_length(exchange: &Exchange) -> usize {
    let reply = exchange.reply();
    let own = if reply.raw.is_null() { 0 } else { reply.raw.to_string().len() };
    let calls = reply
        .calls
        .iter()
        .map(|requested| requested.call.tool.len() + requested.call.arguments.to_string().len());
    own.max(reply.text.len() + calls.sum::<usize>())
}

fn answered(exchange: &Exchange) -> usize {
    exchange.answered().map(|(_, result)| result.content.len() + result.attachments.len() * ATTACHMENT).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::provider::{Reply, RequestedCall};
    use haft_core::call::{ToolCall, ToolResult};

    fn turn(bytes: usize) -> Message {
        let call = ToolCall { id: "a".into(), tool: "t".into(), arguments: json!({}) };
        let reply = Reply { calls: vec![RequestedCall { call, problem: None }], ..Reply::default() };
        Message::Turn(Exchange::new(reply, [ToolResult::success("x".repeat(bytes))]))
    }

    fn says(text: &str) -> Message {
        Message::User(text.into())
    }

    #[test]
    fn a_long_run_keeps_its_task_and_its_latest_steps() {
        let mut messages = vec![says("the task")];
        let mut window = Window::new(Some(1000));
        let mut cuts = Vec::new();
        for _ in 0..40 {
            messages.push(turn(500));
            cuts.extend(window.fit(&messages));
            let shown = window.visible(&messages);
            assert!(matches!(&shown[0], Message::User(text) if text.ends_with("the task")));
            assert!(shown.iter().map(cost).sum::<usize>() < 4000 + 200);
            assert_eq!(shown.last(), messages.last());
        }
        assert!(cuts.len() < 12, "a prompt cache lives between two cuts: {cuts:?}");
    }

    #[test]
    fn what_is_asked_after_a_cut_is_the_task() {
        let messages = vec![says("old"), turn(9000), says("new"), turn(10)];
        let mut window = Window::new(Some(1000));
        assert_eq!(window.fit(&messages), Some(2));
        let shown = window.visible(&messages);
        assert_eq!(shown.len(), 2);
        assert!(
            matches!(&shown[0], Message::User(text) if text.contains("first 2 messages") && text.ends_with("new"))
        );
    }

    #[test]
    fn what_fits_is_shown_as_it_is() {
        let messages = vec![says("x"), turn(10)];
        let mut window = Window::new(None);
        assert_eq!(window.fit(&messages), None);
        assert!(matches!(window.visible(&messages), Cow::Borrowed(_)));
    }

    proptest! {
        /// PL20: whatever is cut away, the first message is a person's, and roles alternate.
        #[test]
        fn pl20_what_is_shown_is_valid(sizes in prop::collection::vec(0_usize..3000, 1..40), budget in 1_u32..3000) {
            let mut messages = vec![says("task")];
            let mut window = Window::new(Some(budget));
            for size in sizes {
                let next = if size % 5 == 0 && matches!(messages.last(), Some(Message::Turn(_))) { says("go on") } else { turn(size) };
                messages.push(next);
                window.fit(&messages);
                let shown = window.visible(&messages);
                prop_assert!(matches!(shown[0], Message::User(_)));
                prop_assert!(!shown.windows(2).any(|pair| matches!(pair, [Message::User(_), Message::User(_)])));
            }
        }
    }
}
