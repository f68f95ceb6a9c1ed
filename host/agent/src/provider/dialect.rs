//! The format of a vendor: writes requests and reads responses. All functions are pure; `remote` does the I/O. A
//! streamed response is folded into the body of an unstreamed one, so that one function reads both.

use serde_json::{Map, Value};

use super::ends::{self, Ending, Ends, ending};
use super::error::Failure;
use super::files::Takes;
use super::models::Listing;
use super::output::Formats;
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

/// The end of a turn.
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
        self.ending == Ending::Length
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
    /// The additional headers of every request.
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// The keys of the body that settings must not set.
    pub(super) reserved: &'static [&'static str],
    /// The framing of a streamed response.
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

/// The format of a vendor.
pub(super) trait Dialect: Send + Sync {
    fn api(&self) -> Api;

    /// Returns the path of the endpoint for `model`, relative to the base URL.
    fn path(&self, model: &str, stream: bool) -> String;

    /// Returns the query parameter that belongs to [`Self::path`].
    fn query(&self, _stream: bool) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Returns the requests with which the schema of an answer is sent, for `model` at the vendor or at another
    /// server of its format.
    fn formats(&self, model: &str, is_vendor: bool) -> Formats;

    /// Returns the maximum length of a call id in bytes.
    fn id_bytes(&self, _terms: &Terms) -> usize {
        usize::MAX
    }

    /// Adapts the finished body to the conversation in it.
    fn settle(&self, _body: &mut Map<String, Value>, _model: &str) {}

    /// Returns the files that the vendor accepts in prompts and answers; `ask` holds no others.
    fn files(&self, terms: &Terms) -> &'static Takes;

    /// Returns the body that requests the next turn of `ask`.
    fn request(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value>;

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
        let stop = ends::stop(end.ending, &reply, end.word, end.detail)?;
        reply.unfinished = stop == Stop::Paused;
        let model = self.answering(body).unwrap_or(ask.model).to_owned();
        Ok(Turn { reply, stop, usage: self.usage(body), wasted: Usage::default(), model })
    }

    /// Finds a word for the end of a turn.
    fn end<'w>(&self, word: &'w str) -> End<'w> {
        End { ending: ending(self.api().ends, word), word, detail: "" }
    }

    /// Returns an empty fold for a streamed response.
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
