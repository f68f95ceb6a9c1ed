//! What a model answered, in words that fit every vendor. Decides nothing about it.

use std::ops::AddAssign;

use serde_json::Value;

use crate::call::ToolCall;

/// One turn of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// What it said and what it wants done.
    pub reply: Reply,
    /// Why it stopped.
    pub stop: Stop,
    /// What it cost.
    pub usage: Usage,
    /// The model that answered, as the vendor reports it; often more exact than what was asked for.
    pub model: String,
}

/// What a model said and wants done; stays in the conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The text; empty when there are only calls.
    pub text: String,
    /// The calls, in the order in which they are to run.
    pub calls: Vec<Wanted>,
    /// The vendor's own message, to be sent back with the next request: it may hold parts that
    /// only the vendor understands (reasoning, signatures) and wants to see again.
    pub raw: Value,
}

/// A call that a model asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The call. Its id is unique in the turn. Where the arguments could not be read they are
    /// a JSON string of what was sent.
    pub call: ToolCall,
    /// Why it cannot be run: the answer for the model, instead of a tool's.
    pub problem: Option<String>,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It had said all, or waits for its calls to be answered.
    Done,
    /// The limit of output tokens was reached.
    Length,
    /// The vendor's filter held the rest back.
    Filtered,
    /// It declined; the reply's text says why.
    Refused,
}

/// Tokens of one or more turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
    /// How many of the tokens read came from the vendor's prompt cache.
    pub cached: u64,
}

impl Usage {
    /// Tokens read and written.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cached = self.cached.saturating_add(other.cached);
    }
}
