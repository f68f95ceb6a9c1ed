//! What a model answered, in words that fit every vendor. Decides nothing about it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use haft_core::call::ToolCall;
use haft_core::usage::Usage;

/// One turn of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// What it said and what it wants done.
    pub reply: Reply,
    /// Why it stopped.
    pub stop: Stop,
    /// What it cost.
    pub usage: Usage,
    /// What the answers cost that came before it and could not be used.
    pub wasted: Usage,
    /// The model that answered, as the vendor reports it; often more exact than what was asked for.
    pub model: String,
}

/// What a model said and wants done; stays in the conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The text; empty when there are only calls.
    pub text: String,
    /// The calls, in the order in which they are to run.
    pub calls: Vec<RequestedCall>,
    /// The vendor's own message, to be sent back with the next request: it may hold parts that
    /// only the vendor understands (reasoning, signatures) and wants to see again.
    #[serde(default)]
    pub raw: Value,
    /// The provider that wrote [`raw`](Self::raw): a name of [`PROVIDERS`](super::PROVIDERS). Other providers build a
    /// message of their own from the text and the calls.
    #[serde(default)]
    pub vendor: String,
    /// The server that the model was asked at, without a path, where that was not the vendor itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// The vendor interrupted the turn, and goes on with it when it is sent back as it is.
    #[serde(default)]
    pub unfinished: bool,
}

impl Reply {
    /// Whether there is nothing in it that could be sent back. Blanks are nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.calls.is_empty() && !self.unfinished
    }
}

/// A call that a model asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestedCall {
    /// The call. Its id is unique in the turn. Where the arguments could not be read they are
    /// a JSON string of what was sent.
    pub call: ToolCall,
    /// Why it cannot be run: the answer for the model, instead of a tool's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It had said all, or waits for its calls to be answered.
    Done,
    /// The limit of output tokens was reached.
    Length,
    /// The vendor's filter held the rest back.
    Filtered,
    /// It declined; the reply's text says why.
    Refused,
    /// The vendor interrupted it ([`Reply::unfinished`]): ask again, with what there is.
    Paused,
}

impl Stop {
    /// The word for it that traces have.
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

    /// A journal of an older version knows fewer fields.
    #[test]
    fn a_reply_survives_being_written_down() {
        let reply = Reply { text: "hi".into(), vendor: "openai".into(), ..Reply::default() };
        let text = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&text).unwrap(), reply);
        let old: Reply = serde_json::from_str(r#"{"text":"hi","calls":[]}"#).unwrap();
        assert!(!old.is_empty() && old.vendor.is_empty());
    }
}
