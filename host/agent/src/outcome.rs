//! What a run came to. A run that ends early is told apart from one that is done, and keeps
//! what it had.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::provider::{ProviderError, Usage};
use haft_core::tool::AgentUse;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// The final text; for an end in the middle of the task all that the model said on
    /// the way, with an empty line between turns. May be empty.
    pub text: String,
    /// How often the model answered.
    pub turns: u32,
    /// Tokens of all turns, with those of [`Self::agents`].
    pub usage: Usage,
    /// The model that answered last, as the provider reports it.
    pub model: String,
    /// From the prompt to the end.
    pub elapsed: Duration,
    /// Why the model could not be asked, for [`End::Failed`].
    pub failure: Option<ProviderError>,
    /// The answer, valid against [`AgentSettings::output`](crate::AgentSettings::output), where that was asked for and
    /// the end is [`End::Final`].
    pub output: Option<Value>,
    /// What was spent, for [`End::Budget`], and what was wrong with the last answer, for [`End::Invalid`].
    pub detail: Option<String>,
    /// What the agents used that were called as tools, by their names.
    pub agents: BTreeMap<String, AgentUse>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The model said all it had to say.
    Final,
    /// The final text is cut off at the limit of output tokens.
    Length,
    /// The provider's filter held the answer back, or the rest of it.
    Filtered,
    /// The model declined; the text says why.
    Refused,
    /// The model would have gone on, but was asked as often as allowed.
    TurnCap,
    /// The model would have gone on, but what the task may cost was spent.
    Budget,
    /// The model gave no answer that is valid against the schema, however often it was asked.
    Invalid,
    /// The session was cancelled.
    Cancelled,
    /// The model could not be asked any more; [`Outcome::failure`] says why.
    Failed,
}

impl End {
    /// The words for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Final => "done",
            Self::Length => "cut off",
            Self::Filtered => "filtered",
            Self::Refused => "declined",
            Self::TurnCap => "turn cap",
            Self::Budget => "budget",
            Self::Invalid => "no valid answer",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Whether the task is left in the middle, so that it can be gone on with as it is.
    pub fn is_resumable(self) -> bool {
        matches!(self, Self::TurnCap | Self::Budget | Self::Invalid | Self::Cancelled | Self::Failed)
    }
}

impl Outcome {
    /// Why there is no complete answer; `None` when there is one.
    pub fn shortfall(&self) -> Option<String> {
        let text = match self.end {
            End::Final => return None,
            End::TurnCap => {
                return Some(format!("reached max turns ({}) without final response", self.turns));
            }
            End::Budget => return Some(format!("the task is not done: {}", self.detail())),
            End::Invalid => {
                return Some(format!("no answer that is valid against the schema: {}", self.detail()));
            }
            End::Length => "the answer is cut off at the limit of output tokens",
            End::Filtered => "the provider's content filter held the answer back",
            End::Refused => "the model declined",
            End::Cancelled => "cancelled",
            End::Failed => return Some(self.failure.as_ref().map_or_else(String::new, ToString::to_string)),
        };
        Some(text.to_owned())
    }

    fn detail(&self) -> &str {
        self.detail.as_deref().unwrap_or_default()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shortfall() {
            None => f.write_str(&self.text),
            Some(why) if self.text.is_empty() => write!(f, "[{why}]"),
            Some(why) => write!(f, "{}\n\n[{why}]", self.text),
        }
    }
}
