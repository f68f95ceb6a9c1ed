//! The format of a vendor: writes requests and reads responses. All functions are pure; `remote` does the I/O. A
//! streamed response is folded into the body of an unstreamed one, so that one function reads both.

use serde_json::{Map, Value};

use super::error::{Failure, excerpt};
use super::files::Takes;
use super::models::Listing;
use super::output::{Formats, OutputSchema};
pub(super) use super::thoughts::Piece;
use super::thoughts::said;
use super::{Ask, Reply, Stop, Turn, Usage};
use haft_core::model::Effort;
use haft_core::net::Framing;

/// The parameters of a request beside its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) stream: bool,
    /// The maximum number of output tokens; `None`: the vendor's default.
    pub(super) max_tokens: Option<u32>,
    /// The amount of the model's thinking; `None` for the vendor's default.
    pub(super) effort: Option<Effort>,
    /// The context window in tokens, for servers that need to know it.
    pub(super) context_window: Option<u32>,
    /// Whether the request goes to the vendor itself, not to another server of its format.
    pub(super) is_vendor: bool,
}

#[derive(Clone, Copy)]
pub(super) struct End<'w> {
    pub(super) ending: Ending,
    pub(super) word: &'w str,
    /// Further details, for a message.
    pub(super) detail: &'w str,
}

impl End<'_> {
    /// Returns whether the limit of output tokens ended the turn.
    pub(super) fn is_cut(&self) -> bool {
        self.ending == Length
    }

    /// Converts the end of a turn with `reply` to a [`Stop`] or a failure.
    fn stop(&self, reply: &Reply) -> Result<Stop, Failure> {
        let text = || excerpt(&format!("{}{}", self.word, self.detail));
        let has_calls = !reply.calls.is_empty();
        match self.ending {
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
        match self.ending {
            Calls if !has_calls => {
                Err(Failure::Botched(format!("the answer ended with `{}` but has no call", text())))
            }
            Unknown if !has_calls && self.word.is_empty() => {
                Err(Failure::Botched("the answer has no end marker".into()))
            }
            Unknown if !has_calls => {
                Err(Failure::Botched(format!("it ended with the unknown reason `{}`", text())))
            }
            _ => Ok(Stop::Done),
        }
    }
}

/// The constants of a vendor's API.
#[derive(Clone, Copy)]
pub(super) struct Api {
    /// The request for the vendor's list of models, and its format.
    pub(super) listing: Listing,
    /// The path of the list of models, relative to the base URL: free of charge, so suitable for a check.
    pub(super) models_path: &'static str,
    /// The header that carries the API key, and the text before the key.
    pub(super) key: (&'static str, &'static str),
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// The path of the endpoint, relative to the base URL.
    pub(super) path: &'static str,
    /// The maximum length of a call id in bytes, at the vendor and at other servers of its format.
    pub(super) id_bytes: [usize; 2],
    /// The files that prompts and answers may hold, at the vendor and at other servers of its format.
    pub(super) files: [&'static Takes; 2],
    /// The keys of the body that settings must not set.
    pub(super) reserved: &'static [&'static str],
    pub(super) framing: Framing,
    /// The [`Reply::vendor`] whose raw messages are sent back unmodified.
    pub(super) vendor: &'static str,
    /// Whether many servers use this format, each with its own raw messages.
    pub(super) is_shared: bool,
    /// Whether the vendor reports the cost of each turn.
    pub(super) tells_cost: bool,
    /// The vendor's words for the end of a turn.
    pub(super) ends: Ends,
}

impl Api {
    /// Returns the maximum length of a call id in bytes, and the accepted files.
    pub(super) fn limits(&self, is_vendor: bool) -> (usize, &'static Takes) {
        let ([own_bytes, bytes], [own_files, files]) = (self.id_bytes, self.files);
        if is_vendor { (own_bytes, own_files) } else { (bytes, files) }
    }
}

pub(super) trait Dialect: Send + Sync {
    fn api(&self) -> Api;

    /// Returns the path of the endpoint for `model`, relative to the base URL.
    fn path(&self, _model: &str, _stream: bool) -> String {
        self.api().path.into()
    }

    /// Returns the query parameter that belongs to [`Self::path`].
    fn query(&self, _stream: bool) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Returns the requests with which the schema of an answer is sent, for `model` at the vendor or at another
    /// server of its format.
    fn formats(&self, model: &str, is_vendor: bool) -> Formats;

    /// Adapts the finished body to the conversation in it.
    fn settle(&self, _body: &mut Map<String, Value>, _model: &str) {}

    /// Returns the body that requests the next turn of `ask`.
    fn request(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value> {
        let mut body = self.conversation(ask, terms);
        if let Some(output) = ask.format(self.formats(ask.model, terms.is_vendor)) {
            self.add_schema(&mut body, output, terms.is_vendor);
        }
        body
    }

    /// Returns the body without the schema of the answer.
    fn conversation(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value>;

    /// Adds the schema of the answer, beside other members of the parameter.
    fn add_schema(&self, body: &mut Map<String, Value>, output: &OutputSchema, is_vendor: bool);

    /// Reads the turn from the body of a successful response to `ask`.
    fn decode(&self, ask: &Ask<'_>, body: Value) -> Result<Turn, Failure>;

    /// Reads the usage from a body, also from one without a turn or with an incomplete one.
    fn usage(&self, body: &Value) -> Usage;

    /// Returns the model that answered, if the body names it.
    fn answering<'b>(&self, body: &'b Value) -> Option<&'b str> {
        body.get("model").and_then(Value::as_str).filter(|name| !name.is_empty())
    }

    /// Returns the turn of a body from its `reply` and its `end`.
    fn turn(&self, ask: &Ask<'_>, body: &Value, mut reply: Reply, end: &End<'_>) -> Result<Turn, Failure> {
        let thought = reply.text.len() - said(&reply.text).len();
        reply.text.drain(..thought);
        let stop = end.stop(&reply)?;
        reply.unfinished = stop == Stop::Paused;
        let model = self.answering(body).unwrap_or(ask.model).to_owned();
        Ok(Turn { reply, stop, usage: self.usage(body), wasted: Usage::default(), model })
    }

    /// Finds a word for the end of a turn.
    fn end<'w>(&self, word: &'w str) -> End<'w> {
        let found = self.api().ends.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
        End { ending: found.map_or(Unknown, |(_, ending)| *ending), word, detail: "" }
    }

    fn fold(&self) -> Box<dyn Fold>;
}

/// The state of a streamed response while it is folded into a body.
pub(super) trait Fold: Send {
    /// Adds the next frame, and appends its visible parts to `pieces`.
    fn take(&mut self, frame: Value, pieces: &mut Vec<Piece>) -> Result<(), Failure>;

    /// Returns whether the end of the answer was received: it is complete then, though its usage may follow.
    fn is_complete(&self) -> bool;

    /// Returns whether no further frame can follow.
    fn is_over(&self) -> bool {
        false
    }

    fn body(self: Box<Self>) -> Value;
}

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

/// The words of a vendor. A word that is not in its table is never a success.
type Ends = &'static [(&'static str, Ending)];

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
