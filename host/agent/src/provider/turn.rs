//! The turn of a model, in a form independent of the vendor.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use haft_core::call::ToolCall;
use haft_core::usage::Usage;

/// One turn of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The text and the calls.
    pub reply: Reply,
    /// Why the model stopped.
    pub stop: Stop,
    /// The usage of the turn.
    pub usage: Usage,
    /// The usage of earlier responses that could not be used.
    pub wasted: Usage,
    /// The model that answered, as the vendor reports it; often more exact than the requested name.
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
    /// Whether nothing can be sent back; whitespace counts as nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.calls.is_empty() && !self.unfinished
    }
}

/// A call by a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestedCall {
    /// The call. Its id is unique in the turn. Unreadable arguments are stored as a JSON string.
    pub call: ToolCall,
    /// Why the call cannot run: the model gets this text as the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Why a model stopped.
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
