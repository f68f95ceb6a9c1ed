//! What a model is asked: a conversation whose every call has its answer, by construction.
//! Knows no vendor's roles or shapes.

use serde::{Deserialize, Serialize};

use haft_core::call::{ToolDef, ToolResult};

use super::output::{Formats, OutputSchema};
use super::prompt::Prompt;
use super::turn::{Reply, RequestedCall};

/// A request for the next turn of a conversation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    /// The model's name as the vendor writes it.
    pub model: &'a str,
    /// What the model is told before everything else; nothing is sent when empty.
    pub system: &'a str,
    /// The conversation so far, oldest first.
    pub messages: &'a [Message],
    /// What the model may call; nothing is sent when empty.
    pub tools: &'a [&'a ToolDef],
    /// The form that the final answer is to have. Sent as the vendor's own parameter where it has one: the model has
    /// to be told in `system` besides.
    pub output: Option<&'a OutputSchema>,
}

impl Ask<'_> {
    /// How many calls the conversation holds.
    pub fn calls(&self) -> usize {
        self.messages.iter().map(Message::calls).sum()
    }

    /// The form of the answer, where a dialect sends it.
    pub(super) fn format(&self, when: Formats) -> Option<&OutputSchema> {
        self.output.filter(|_| match when {
            Formats::BesideTools => true,
            Formats::Alone => self.tools.is_empty(),
            Formats::Never => false,
        })
    }
}

/// One step of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// A person said this.
    User(Prompt),
    /// The model took a turn, and its calls were answered.
    Turn(Exchange),
}

impl Message {
    fn calls(&self) -> usize {
        match self {
            Self::User(_) => 0,
            Self::Turn(exchange) => exchange.reply.calls.len(),
        }
    }
}

/// A turn of the model with the answer to each of its calls. No vendor accepts a call without
/// its answer, so there is no way to make one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Exchange {
    reply: Reply,
    answers: Vec<ToolResult>,
}

/// An exchange as it was written down, by whomever.
#[derive(Deserialize)]
struct Written {
    reply: Reply,
    #[serde(default)]
    answers: Vec<ToolResult>,
}

impl From<Written> for Exchange {
    fn from(written: Written) -> Self {
        Self::new(written.reply, written.answers)
    }
}

impl Exchange {
    /// Pairs the calls of `reply` with `answers`, in order. Calls that are left over are
    /// answered as not run, answers that are left over are dropped.
    pub fn new(reply: Reply, answers: impl IntoIterator<Item = ToolResult>) -> Self {
        let missing = std::iter::repeat_with(|| ToolResult::error("the call was not run"));
        let answers = answers.into_iter().chain(missing).take(reply.calls.len()).collect();
        Self { reply, answers }
    }

    /// What the model said.
    pub fn reply(&self) -> &Reply {
        &self.reply
    }

    /// Each call with its answer, in the order of the calls.
    pub fn answered(&self) -> impl Iterator<Item = (&RequestedCall, &ToolResult)> {
        self.reply.calls.iter().zip(&self.answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haft_core::call::ToolCall;

    /// PL20: whatever was answered, each call ends up with exactly one answer.
    #[test]
    fn pl20_an_exchange_answers_every_call() {
        let requested = |id: &str| RequestedCall {
            call: ToolCall { id: id.into(), tool: "t".into(), arguments: serde_json::json!({}) },
            problem: None,
        };
        let reply = Reply { calls: vec![requested("a"), requested("b")], ..Reply::default() };
        for answered in 0..4 {
            let exchange =
                Exchange::new(reply.clone(), (0..answered).map(|n| ToolResult::success(n.to_string())));
            let answers: Vec<_> = exchange.answered().map(|(_, result)| result.is_error).collect();
            assert_eq!(answers, [answered < 1, answered < 2]);
            let text = serde_json::to_string(&Message::Turn(exchange.clone())).unwrap();
            assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), Message::Turn(exchange));
        }
        let cut: Exchange = serde_json::from_value(serde_json::json!({ "reply": reply })).unwrap();
        assert_eq!(cut.answered().count(), 2);
    }
}
