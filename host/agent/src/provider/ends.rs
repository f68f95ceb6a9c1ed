//! The words of vendors for the end of a turn, one table per vendor. A word that is not in a table is never a
//! success.

use super::error::{Failure, excerpt};
use super::{Reply, Stop};

/// The meaning of a word for the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The answer is complete.
    Done,
    Calls,
    Length,
    Filtered,
    Refused,
    Paused,
    /// The conversation filled the context window of the model.
    TooLong,
    /// The output of the model is unusable; its complete calls are usable.
    Botched,
    /// The inference server failed in the middle of the turn.
    Failed,
    /// An unknown word, or none.
    Unknown,
}

use Ending::{Botched, Calls, Done, Failed, Filtered, Length, Paused, Refused, TooLong, Unknown};

/// The words of a vendor.
pub(super) type Ends = &'static [(&'static str, Ending)];

/// Chat completions: OpenAI, OpenRouter, Mistral, `DeepSeek`, and the many servers of this format.
pub(super) const CHAT: Ends = &[
    ("stop", Done),
    ("complete", Done),
    ("completed", Done),
    ("end", Done),
    ("end_turn", Done),
    ("eos", Done),
    ("eos_token", Done),
    ("stop_sequence", Done),
    ("stop_str", Done),
    ("stop_token", Done),
    ("tool_calls", Calls),
    ("tool_call", Calls),
    ("tool_use", Calls),
    ("function_call", Calls),
    ("length", Length),
    ("max_tokens", Length),
    ("max_output_tokens", Length),
    ("model_length", Length),
    ("content_filter", Filtered),
    ("safety", Filtered),
    ("sensitive", Filtered),
    ("refusal", Refused),
    ("abort", Failed),
    ("cancelled", Failed),
    ("error", Failed),
    ("insufficient_system_resource", Failed),
    ("network_error", Failed),
];

/// The statuses of a response, and its `incomplete_details` reasons.
pub(super) const RESPONSES: Ends = &[
    ("completed", Done),
    ("max_output_tokens", Length),
    ("content_filter", Filtered),
    ("cancelled", Failed),
    ("failed", Failed),
    ("in_progress", Failed),
    ("queued", Failed),
];

pub(super) const ANTHROPIC: Ends = &[
    ("end_turn", Done),
    ("stop_sequence", Done),
    ("tool_use", Calls),
    ("max_tokens", Length),
    ("refusal", Refused),
    ("pause_turn", Paused),
    ("model_context_window_exceeded", TooLong),
];

/// The `finishReason` of a candidate.
pub(super) const GEMINI: Ends = &[
    ("STOP", Done),
    ("MAX_TOKENS", Length),
    ("SAFETY", Filtered),
    ("RECITATION", Filtered),
    ("LANGUAGE", Filtered),
    ("BLOCKLIST", Filtered),
    ("PROHIBITED_CONTENT", Filtered),
    ("SPII", Filtered),
    ("IMAGE_SAFETY", Filtered),
    ("IMAGE_PROHIBITED_CONTENT", Filtered),
    ("IMAGE_RECITATION", Filtered),
    ("MALFORMED_FUNCTION_CALL", Botched),
    ("UNEXPECTED_TOOL_CALL", Botched),
    ("MALFORMED_RESPONSE", Botched),
    ("MISSING_THOUGHT_SIGNATURE", Botched),
    ("TOO_MANY_TOOL_CALLS", Botched),
    ("OTHER", Botched),
    ("IMAGE_OTHER", Botched),
    ("NO_IMAGE", Botched),
];

/// The `done_reason`; early versions send only `done: true`, which is the word `done` here.
pub(super) const OLLAMA: Ends =
    &[("stop", Done), ("done", Done), ("length", Length), ("load", Done), ("unload", Done)];

/// Looks up `word`.
pub(super) fn ending(ends: Ends, word: &str) -> Ending {
    let found = ends.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
    found.map_or(Unknown, |(_, ending)| *ending)
}

/// Converts the end of a turn to a [`Stop`] or a failure. `word` and `detail` are for messages.
pub(super) fn stop(ending: Ending, reply: &Reply, word: &str, detail: &str) -> Result<Stop, Failure> {
    let text = || excerpt(&format!("{word}{detail}"));
    let has_calls = !reply.calls.is_empty();
    match ending {
        TooLong => return Err(Failure::TooLong(text())),
        Failed => return Err(Failure::Botched(format!("the server ended it with `{}`", text()))),
        Botched if !has_calls => return Err(Failure::Botched(text())),
        Length => return Ok(Stop::Length),
        Filtered => return Ok(Stop::Filtered),
        Refused => return Ok(Stop::Refused),
        Paused => return Ok(Stop::Paused),
        _ => {}
    }
    if reply.is_empty() {
        return Err(Failure::Empty(format!("neither text nor a call (it ended with `{}`)", text())));
    }
    match ending {
        Calls if !has_calls => {
            Err(Failure::Botched(format!("the answer ended with `{}` but has no call", text())))
        }
        Unknown if !has_calls && word.is_empty() => {
            Err(Failure::Botched("the answer has no end marker".into()))
        }
        Unknown if !has_calls => {
            Err(Failure::Botched(format!("it ended with the unknown reason `{}`", text())))
        }
        _ => Ok(Stop::Done),
    }
}
