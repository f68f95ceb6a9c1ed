//! A model request. By construction, every call in its conversation has an answer. Independent of the roles and
//! formats of vendors.

use serde::{Deserialize, Serialize};

use haft_core::call::{ToolDef, ToolResult};

use super::output::{Formats, OutputSchema};
use super::prompt::Prompt;
use super::turn::{Reply, RequestedCall};

/// A request for the next turn of a conversation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    /// The model's name, as the vendor spells it.
    pub model: &'a str,
    /// The system prompt; not sent if empty.
    pub system: &'a str,
    /// The conversation so far, oldest first.
    pub messages: &'a [Message],
    /// The tools that the model may call; not sent if empty.
    pub tools: &'a [&'a ToolDef],
    /// The schema of the final answer, sent as the vendor's parameter where there is one; `system` must describe it
    /// too.
    pub output: Option<&'a OutputSchema>,
}

impl Ask<'_> {
    /// Returns the number of calls in the conversation.
    pub fn calls(&self) -> usize {
        self.messages.iter().map(Message::calls).sum()
    }

    /// Returns the schema of the answer if the dialect sends it with this request.
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
    /// A prompt of a person.
    User(Prompt),
    /// A turn of the model with its answered calls.
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

/// A turn of the model with the answer to each of its calls. No vendor accepts a call without an answer, so such a
/// turn cannot be constructed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Exchange {
    reply: Reply,
    answers: Vec<ToolResult>,
}

/// The serialised form of an exchange, from an untrusted source.
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
    /// Pairs the calls of `reply` with `answers`, in order. Calls without an answer are answered as not run;
    /// surplus answers are dropped.
    pub fn new(reply: Reply, answers: impl IntoIterator<Item = ToolResult>) -> Self {
        let missing = std::iter::repeat_with(|| ToolResult::error("the call was not run"));
        let answers = answers.into_iter().chain(missing).take(reply.calls.len()).collect();
        Self { reply, answers }
    }

    /// Returns the reply of the model.
    pub fn reply(&self) -> &Reply {
        &self.reply
    }

    /// Returns each call with its answer, in the order of the calls.
    pub fn answered(&self) -> impl Iterator<Item = (&RequestedCall, &ToolResult)> {
        self.reply.calls.iter().zip(&self.answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haft_core::call::ToolCall;

    /// PL20: each call has exactly one answer, however many are given.
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
