//! A model request. By construction, every call in its conversation has an answer. Independent of the roles and
//! formats of vendors.

use serde::{Deserialize, Serialize};

use haft_core::call::{Attachment, ToolCall, ToolDef, ToolResult};
use haft_core::usage::Usage;
use serde_json::Value;

use super::output::{Formats, OutputSchema};

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
    /// The schema of the final answer, sent as the vendor's parameter if there is one; `system` must describe the
    /// schema too.
    pub output: Option<&'a OutputSchema>,
}

impl Ask<'_> {
    /// Returns the number of calls in the conversation.
    pub fn calls(&self) -> usize {
        let calls = |message: &Message| match message {
            Message::User(_) => 0,
            Message::Turn(exchange) => exchange.reply.calls.len(),
        };
        self.messages.iter().map(calls).sum()
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
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A prompt of a person.
    User(Prompt),
    /// A turn of the model with its answered calls.
    Turn(Exchange),
}

/// A prompt of a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// The attached files, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

impl Prompt {
    /// Returns the text with a line for each file, for consumers of text only.
    pub fn told(&self) -> String {
        let mut text = self.text.clone();
        for attachment in &self.attachments {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&attachment.mention());
        }
        text
    }

    /// Appends the next prompt, given before the model answered.
    pub(crate) fn join(&mut self, next: Self) {
        if !self.text.is_empty() && !next.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&next.text);
        self.attachments.extend(next.attachments);
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self { text, attachments: Vec::new() }
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// A turn of the model with the answer to each of its calls. No vendor accepts a call without an answer, so such a
/// turn cannot be constructed.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    reply: Reply,
    answers: Vec<ToolResult>,
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

/// One turn of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The text and the calls.
    pub reply: Reply,
    /// The reason why the model stopped.
    pub stop: Stop,
    /// The usage of the turn.
    #[serde(default)]
    pub usage: Usage,
    /// The usage of earlier responses that could not be used; not saved.
    #[serde(skip)]
    pub wasted: Usage,
    /// The model that answered, as the vendor reports it; often more exact than the requested name.
    #[serde(default)]
    pub model: String,
}

/// The text and the calls of a turn; a part of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The text; empty if there are only calls.
    pub text: String,
    /// The calls, in the order in which they run.
    pub calls: Vec<RequestedCall>,
    /// The raw message of the vendor, sent back with the next request: it may hold parts that only the vendor can
    /// interpret (reasoning, signatures) and requires unmodified.
    #[serde(default)]
    pub raw: Value,
    /// The provider that wrote [`raw`](Self::raw): a name of [`PROVIDERS`](super::PROVIDERS). Other providers build
    /// a message from the text and the calls.
    #[serde(default)]
    pub vendor: String,
    /// The origin of the server, unless it was the vendor itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// Whether the vendor interrupted the turn; it continues when the turn is sent back unmodified.
    #[serde(default)]
    pub unfinished: bool,
}

impl Reply {
    /// Returns whether nothing can be sent back; whitespace counts as nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.calls.is_empty() && !self.unfinished
    }
}

/// A call by a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestedCall {
    /// The call. Its id is unique in the turn. Unreadable arguments are stored as a JSON string.
    pub call: ToolCall,
    /// The reason why the call cannot run: the model gets this text as the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The reason why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The answer is complete, or the model waits for the answers to its calls.
    Done,
    /// The limit of output tokens was reached.
    Length,
    /// The vendor's filter withheld the rest.
    Filtered,
    /// The model declined; the text of the reply gives its reason.
    Refused,
    /// The vendor interrupted the turn ([`Reply::unfinished`]): the next request continues it.
    Paused,
}

impl Stop {
    /// Returns the value for traces (`gen_ai.response.finish_reasons`).
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "stop",
            Self::Length => "length",
            Self::Filtered => "content_filter",
            Self::Refused => "refusal",
            Self::Paused => "pause",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haft_core::call::ToolCall;

    /// PL20: each call has exactly one answer, regardless of the number of given answers.
    #[test]
    fn an_exchange_answers_every_call() {
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
        }
    }

    #[test]
    fn what_is_told_of_a_prompt_names_its_files() {
        let attachments =
            vec![Attachment { name: Some("a.png".into()), ..Attachment::new("image/png", vec![1]) }];
        let mut prompt = Prompt { text: String::new(), attachments };
        assert_eq!(prompt.told(), "[a.png: image/png, 1 bytes]");
        prompt.text = "see".into();
        prompt.join("now".into());
        assert_eq!(prompt.told(), "see\n\nnow\n[a.png: image/png, 1 bytes]");
    }

    /// Journals of older versions lack fields.
    #[test]
    fn a_reply_survives_being_written_down() {
        let reply = Reply { text: "hi".into(), vendor: "openai".into(), ..Reply::default() };
        let text = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&text).unwrap(), reply);
        let old: Reply = serde_json::from_str(r#"{"text":"hi","calls":[]}"#).unwrap();
        assert!(!old.is_empty() && old.vendor.is_empty());
    }
}
