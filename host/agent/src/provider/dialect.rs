//! A vendor's format: what to send and what an answer means. Everything here is pure; `remote`
//! does the I/O. A streamed answer is folded into the body that the same API sends at once, so that
//! there is one reading of it, however it came.

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

/// How an answer is asked for, beside what is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    /// In pieces as the model writes it, or whole.
    pub(super) stream: bool,
    /// Tokens of the answer at most; `None`: what the vendor thinks right.
    pub(super) max_tokens: Option<u32>,
    /// How much the model is to think; `None`: what the vendor thinks right.
    pub(super) effort: Option<Effort>,
    /// Tokens that the model reads at once, for servers that want to be told.
    pub(super) context_window: Option<u32>,
    /// It goes to the vendor itself, not to something that speaks its format.
    pub(super) is_vendor: bool,
}

/// How a turn ended.
#[derive(Clone, Copy)]
pub(super) struct End<'w> {
    pub(super) ending: Ending,
    /// The vendor's word for it.
    pub(super) word: &'w str,
    /// What it says besides, for a message.
    pub(super) detail: &'w str,
}

impl End<'_> {
    /// Whether the limit of output tokens ended the turn.
    pub(super) fn is_cut(&self) -> bool {
        self.ending == Ending::Length
    }
}

/// A vendor's format.
pub(super) trait Dialect: Send + Sync {
    /// Where `model` is asked, below the base URL.
    fn path(&self, model: &str, stream: bool) -> String;

    /// A part of the query that goes with [`Self::path`].
    fn query(&self, _stream: bool) -> Option<(&'static str, &'static str)> {
        None
    }

    /// How the vendor's list of models is asked for.
    fn listing(&self) -> Listing;

    /// Whether the vendor says what each turn cost.
    fn tells_cost(&self) -> bool {
        false
    }

    /// What lists the models, below the base URL: free of charge, so fit for a check.
    fn models_path(&self) -> &'static str;

    /// The header that carries the API key.
    fn key_header(&self, key: &str) -> (&'static str, String);

    /// Further headers of every request.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Keys of the body that are not for settings to write.
    fn reserved(&self) -> &'static [&'static str];

    /// How a streamed answer comes.
    fn framing(&self) -> Framing {
        Framing::Events
    }

    /// When the form of an answer is sent, for `model` at the vendor itself or at something that speaks its format.
    fn formats(&self, model: &str, is_vendor: bool) -> Formats;

    /// Whose messages go back as they came: those with this [`Reply::vendor`].
    fn vendor(&self) -> &'static str;

    /// Bytes of a call's id at most.
    fn id_bytes(&self, _terms: &Terms) -> usize {
        usize::MAX
    }

    /// Fits a request to the conversation in it, after all was laid over it.
    fn settle(&self, _body: &mut Map<String, Value>, _model: &str) {}

    /// Whether many servers speak it, whose models' own messages are nothing to each other.
    fn is_shared(&self) -> bool {
        false
    }

    /// The files that are taken, in prompts and answers; `ask` holds no others.
    fn files(&self, terms: &Terms) -> &'static Takes;

    /// The body that asks for `ask`'s next turn.
    fn request(&self, ask: &Ask<'_>, terms: &Terms) -> Map<String, Value>;

    /// What the body of a successful answer to `ask` says.
    fn decode(&self, ask: &Ask<'_>, body: Value) -> Result<Turn, Failure>;

    /// What a body says that it cost, also where it holds no turn, or is the beginning of one.
    fn usage(&self, body: &Value) -> Usage;

    /// The model that answered, where a body names it.
    fn answering<'b>(&self, body: &'b Value) -> Option<&'b str> {
        body.get("model").and_then(Value::as_str).filter(|name| !name.is_empty())
    }

    /// The vendor's words for the end of a turn.
    fn ends(&self) -> Ends;

    /// The turn of a body whose reply was read, and which ended with `word`.
    fn turn(&self, ask: &Ask<'_>, body: &Value, mut reply: Reply, end: &End<'_>) -> Result<Turn, Failure> {
        let thought = reply.text.len() - said(&reply.text).len();
        reply.text.drain(..thought);
        let stop = ends::stop(end.ending, &reply, end.word, end.detail)?;
        reply.unfinished = stop == Stop::Paused;
        let model = self.answering(body).unwrap_or(ask.model).to_owned();
        Ok(Turn { reply, stop, usage: self.usage(body), wasted: Usage::default(), model })
    }

    /// What a word for the end of a turn means.
    fn end<'w>(&self, word: &'w str) -> End<'w> {
        End { ending: ending(self.ends(), word), word, detail: "" }
    }

    /// Puts the body of a streamed answer together.
    fn fold(&self) -> Box<dyn Fold>;
}

/// A streamed answer on its way to becoming a body.
pub(super) trait Fold: Send {
    /// Adds the next frame; what it tells a person is added to `pieces`.
    fn take(&mut self, frame: Value, pieces: &mut Vec<Piece>) -> Result<(), Failure>;

    /// Whether the vendor has said how the answer ends: it is whole then, though its cost may follow.
    fn is_complete(&self) -> bool;

    /// Whether nothing can follow.
    fn is_over(&self) -> bool {
        false
    }

    /// The body.
    fn body(self: Box<Self>) -> Value;
}
