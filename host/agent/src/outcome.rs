//! The outcome of a run. Distinguishes a run that ended early from a finished one, and has the results of both.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::provider::{ProviderError, Usage};
use haft_core::tool::AgentUse;

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The end of the run.
    pub end: End,
    /// The final text. If the run ended in the middle of the task, all text of the model, with an empty line
    /// between turns. May be empty.
    pub text: String,
    /// The number of model turns.
    pub turns: u32,
    /// Tokens of all turns, including those of [`Self::agents`].
    pub usage: Usage,
    /// The model of the last turn, as the provider reports it.
    pub model: String,
    /// The time from the prompt to the end.
    pub elapsed: Duration,
    /// For [`End::Failed`]: why the model could not be asked.
    pub failure: Option<ProviderError>,
    /// The answer, valid against [`AgentSettings::output`](crate::AgentSettings::output), if a schema was set and
    /// the end is [`End::Final`].
    pub output: Option<Value>,
    /// For [`End::Budget`]: what was spent. For [`End::Invalid`]: the errors in the last answer.
    pub detail: Option<String>,
    /// The usage of the agents that were called as tools, by name.
    pub agents: BTreeMap<String, AgentUse>,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The model finished its answer.
    Final,
    /// The limit of output tokens cut the final text off.
    Length,
    /// The provider's filter withheld the answer or the rest of it.
    Filtered,
    /// The model declined; the text gives its reason.
    Refused,
    /// The model requested another turn, but the maximum number of turns was reached.
    TurnCap,
    /// The model requested another turn, but the budget was spent.
    Budget,
    /// The model gave no answer that is valid against the schema, in all attempts.
    Invalid,
    /// The session was cancelled.
    Cancelled,
    /// The model could no longer be asked; [`Outcome::failure`] has the reason.
    Failed,
}

impl End {
    /// Returns the name of the end in messages.
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

    /// Returns whether the task is unfinished and can be continued.
    pub fn is_resumable(self) -> bool {
        matches!(self, Self::TurnCap | Self::Budget | Self::Invalid | Self::Cancelled | Self::Failed)
    }
}

impl Outcome {
    /// Returns the reason why there is no complete answer; `None` for a complete answer.
    pub fn shortfall(&self) -> Option<String> {
        let text = match self.end {
            End::Final => return None,
            End::TurnCap => {
                return Some(format!("reached max turns ({}) without final response", self.turns));
            }
            End::Budget => return Some(format!("the task is not done: {}", self.detail())),
            End::Invalid => {
                return Some(format!("the answer does not match the schema: {}", self.detail()));
            }
            End::Length => "the answer was cut off at the output token limit",
            End::Filtered => "the provider's content filter blocked the answer",
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
