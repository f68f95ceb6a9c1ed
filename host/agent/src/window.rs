//! Selects the part of a conversation for a model. Does not separate a call from its answer, omit the first or the
//! last request of the user, give one answer the room of all others, or move the cut at every turn: the prompt
//! cache of a provider ends at the cut.

mod head;
mod size;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use self::head::{Head, is_larger, shorten};
pub(crate) use self::head::{Keeper, READER, told};
use self::size::{Share, Shares, Size};
use crate::is_own_question;
use crate::provider::{Message, Prompt, TooLong};
use crate::session::Summarised;

/// The approximate number of bytes in 100 tokens of English text and code, for every tokenizer. Digits and other
/// scripts have fewer bytes a token, which the vendor's count of the last turn shows.
const BYTES_OF_100: usize = 400;
/// The smallest accepted value of such a count: no tokenizer makes more tokens than bytes.
const LEAST_BYTES_OF_100: usize = 100;
/// The minimum size, in tokens, of a request from which the bytes per token are computed: in a smaller request the
/// vendor's own texts are too large a part.
const COUNTED_FROM: u64 = 1000;
/// The divisor of the room for the share of a single answer.
const SHARE: usize = 4;
/// The divisor of the room for the share of a single file that cannot be shortened, such as a picture.
const FILE_SHARE: usize = 2;
/// The divisor of the room for the share of the summary.
const SUMMARY_SHARE: usize = 8;
/// The part of the context window that a prompt may take, in quarters. A budget never shortens a prompt.
const PROMPT_QUARTERS: usize = 3;
/// The minimum size of a shortened answer in bytes.
const LEAST_SHARE: usize = 512;
/// The maximum number of tokens reserved for output; in a small window, a quarter of the window.
const LEFT_FOR_ANSWER: u32 = 16_384;
/// The size of a conversation, in bytes, below which an error does not shorten it.
const LEAST_SHOWN: usize = 1024;

/// The limits of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// The limit of the conversation in rough tokens; `None`: no limit.
    pub(super) history: Option<u32>,
    /// The context window in tokens, read and written; `None`: unknown.
    pub(super) window: Option<u32>,
    /// The bytes of every request beside the conversation: the system prompt and the tools.
    pub(super) fixed: usize,
}

/// The position of the cut in a growing conversation, constant from one task to the next.
#[derive(Clone, Debug)]
pub(super) struct Window {
    room: Room,
    /// The model that the following fields were learnt from.
    model: String,
    /// The bytes of 100 tokens in this conversation.
    pub(super) bytes_of_100: usize,
    /// The maximum size in bytes, independent of estimates: learnt from errors.
    ceiling: usize,
    /// The context window in tokens, according to errors.
    limit: u32,
    sizes: Vec<Size>,
    /// The index of the first message that is sent in full.
    pub(super) from: usize,
    pub(super) summary: Option<Summarised>,
    /// Whether files other than text are omitted, as learnt from errors.
    is_without_files: bool,
    /// The count of an earlier process: the number of messages sent, and their tokens.
    counted: Option<(usize, u64)>,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            room: Room::default(),
            model: String::new(),
            bytes_of_100: BYTES_OF_100,
            ceiling: usize::MAX,
            limit: u32::MAX,
            sizes: Vec::new(),
            from: 0,
            summary: None,
            is_without_files: false,
            counted: None,
        }
    }
}

impl Window {
    /// Returns the window of a conversation whose beginning is replaced by `summary`. `counted`: a number of
    /// messages and their tokens by the vendor's count.
    pub(super) fn after(summary: Option<Summarised>, counted: Option<(usize, u64)>) -> Self {
        let from = summary.as_ref().map_or(0, |summary| summary.messages);
        Self { from, summary, counted, ..Self::default() }
    }

    /// Prepares for requests to `model` with the limits `room`. Forgets values learnt from another model.
    pub(super) fn begin(&mut self, model: &str, room: Room) {
        if self.model != model {
            let (sizes, summary) = (std::mem::take(&mut self.sizes), self.summary.take());
            let (from, counted) = (self.from, self.counted.take());
            *self = Self { model: model.to_owned(), sizes, from, summary, counted, ..Self::default() };
        }
        self.room = room;
    }

    /// Moves the cut if `messages` exceed the budget; returns the range that is newly omitted, if the cut moved.
    pub(super) fn fit(&mut self, messages: &[Message]) -> Option<Range<usize>> {
        self.measure(messages);
        if self.rest() <= self.budget_of_rest() {
            return None;
        }
        let before = self.from;
        // Cuts well below the budget, so that the next cut is many turns away. The last message always stays.
        while self.rest() > self.budget_of_rest() / 2 && self.from + 1 < messages.len() {
            self.from += 1;
        }
        (self.from > before).then_some(before..self.from)
    }

    fn measure(&mut self, messages: &[Message]) {
        // Consecutive prompts are joined, so the last message may have grown.
        let known = self.sizes.len().saturating_sub(1);
        self.sizes.truncate(known);
        self.sizes.extend(messages.iter().skip(known).map(Size::new));
        // The file of a session may have lost lines.
        self.from = self.from.min(messages.len().saturating_sub(1));
        self.recall();
    }

    /// Moves the cut to the last message; returns the range that is newly omitted, if any.
    pub(super) fn cut(&mut self, messages: &[Message]) -> Option<Range<usize>> {
        self.measure(messages);
        let before = self.from;
        self.from = messages.len().saturating_sub(1).max(before);
        (self.from > before).then_some(before..self.from)
    }

    /// Returns the approximate tokens of a request with `messages`, and the context window if known.
    pub(super) fn fill(&mut self, messages: &[Message]) -> (usize, Option<u32>) {
        self.measure(messages);
        let bytes = self.shown().saturating_add(self.room.fixed);
        (bytes.saturating_mul(100) / self.bytes_of_100, self.tokens())
    }

    /// Returns the maximum size of the summary in bytes.
    pub(super) fn room_of_summary(&self) -> usize {
        self.shares().summary
    }

    /// Returns the messages that the model sees: those after the cut, preceded by the first and the last request of
    /// the person and the summary of the others. Answers beyond their share are shortened in the middle.
    pub(super) fn visible<'m>(&self, messages: &'m [Message], keeper: Keeper<'_>) -> Cow<'m, [Message]> {
        let shares = self.shares();
        if self.from == 0 && !messages.iter().any(|message| is_larger(message, shares)) {
            return Cow::Borrowed(messages);
        }
        let all = messages.iter().enumerate();
        let shortened = |(index, message): (usize, &Message)| shorten(index, message, shares, keeper);
        if self.from == 0 {
            return Cow::Owned(all.map(shortened).collect());
        }
        let (before, after) = messages.split_at_checked(self.from).unwrap_or((messages, &[]));
        // A prompt directly after the cut is joined to the text for the messages before it: a request of the
        // person, or a question of haft.
        let joined = after.first().filter(|message| matches!(message, Message::User(_)));
        let request = joined.and_then(asked_of);
        let question = joined.filter(|_| request.is_none());
        let first = messages.iter().find_map(asked_of);
        let asked = request.or_else(|| before.iter().rev().find_map(asked_of));
        let head = Head {
            left_out: self.from,
            summary: self.summary.as_ref(),
            first: first.filter(|first| !asked.is_some_and(|asked| std::ptr::eq(*first, asked))),
            said: self
                .said()
                .iter()
                .filter_map(|index| Some(asked_of(before.get(*index)?)?.text.as_str()))
                .collect(),
            asked,
            question: question.and_then(prompt_of),
        };
        let rest = all.skip(self.from + usize::from(joined.is_some())).map(shortened);
        Cow::Owned(std::iter::once(Message::User(head.prompt(shares))).chain(rest).collect())
    }

    /// Learns from the vendor's token count of the last request.
    pub(super) fn count(&mut self, tokens: u64) {
        let bytes = self.shown().saturating_add(self.room.fixed);
        let Some(tokens) = usize::try_from(tokens).ok().filter(|_| tokens >= COUNTED_FROM) else { return };
        self.learn(bytes, tokens);
    }

    /// Learns from the token count of an earlier process.
    fn recall(&mut self) {
        let Some((messages, tokens)) = self.counted.take() else { return };
        // Messages omitted since then were counted.
        if messages > self.from && messages <= self.sizes.len() {
            let later = self.sizes.split_off(messages);
            self.count(tokens);
            self.sizes.extend(later);
        }
    }

    /// Learns from an error about the last request; returns whether the conversation can be shortened.
    pub(super) fn shrink(&mut self, refusal: TooLong) -> bool {
        let shown = self.shown();
        if let Some(asked) = refusal.asked.and_then(|asked| usize::try_from(asked).ok()) {
            self.learn(shown.saturating_add(self.room.fixed), asked);
        }
        if let Some(limit) = refusal.limit {
            self.limit = self.limit.min(limit);
        }
        // Shrinks independently of the numbers in the error.
        self.ceiling = self.ceiling.min(shown / 4 * 3);
        shown > LEAST_SHOWN
    }

    /// Leaves out all files other than text, as the last resort; returns whether such files were sent until now.
    pub(super) fn leave_out_files(&mut self) -> bool {
        let is_change = !self.is_without_files && self.sizes.iter().any(Size::has_files);
        self.is_without_files |= is_change;
        is_change
    }

    /// Adopts a count with fewer bytes a token. Ignores small differences, because a changed cut costs the prompt
    /// cache.
    fn learn(&mut self, bytes: usize, tokens: usize) {
        let counted = (bytes.saturating_mul(100) / tokens.max(1)).clamp(LEAST_BYTES_OF_100, BYTES_OF_100);
        if counted < self.bytes_of_100 / 10 * 9 {
            self.bytes_of_100 = counted;
        }
    }

    /// Returns the context window in tokens, as far as known.
    pub(super) fn tokens(&self) -> Option<u32> {
        let learnt = Some(self.limit).filter(|limit| *limit < u32::MAX);
        self.room.window.map_or(learnt, |window| Some(window.min(self.limit)))
    }

    /// Returns the maximum size of the conversation in bytes.
    fn budget(&self) -> usize {
        let bytes = |tokens: u32| usize::try_from(tokens).map_or(usize::MAX, |tokens| self.bytes(tokens));
        self.room.history.map_or(usize::MAX, bytes).min(self.readable())
    }

    /// Returns the maximum size after the cut in bytes: at least a quarter of the budget.
    fn budget_of_rest(&self) -> usize {
        let budget = self.budget();
        budget.saturating_sub(self.head()).max(budget / 4)
    }

    /// Returns the number of bytes of the conversation that the model can read.
    fn readable(&self) -> usize {
        let tokens = self.tokens().map(|window| window - LEFT_FOR_ANSWER.min(window / 4));
        let bytes =
            tokens.map(|tokens| usize::try_from(tokens).map_or(usize::MAX, |tokens| self.bytes(tokens)));
        bytes.map_or(usize::MAX, |bytes| bytes.saturating_sub(self.room.fixed)).min(self.ceiling)
    }

    fn bytes(&self, tokens: usize) -> usize {
        tokens.saturating_mul(self.bytes_of_100) / 100
    }

    fn shares(&self) -> Shares {
        let quarter = self.readable() / 4;
        let share = |text: usize, file: usize| Share {
            text: text.max(LEAST_SHARE),
            file: if self.is_without_files { 0 } else { file },
        };
        let (prompt, budget) = (quarter.saturating_mul(PROMPT_QUARTERS), self.budget());
        Shares {
            prompt: share(prompt, prompt),
            first: share(quarter, quarter),
            answer: share(budget / SHARE, budget / FILE_SHARE),
            summary: (self.budget() / SUMMARY_SHARE).max(LEAST_SHARE),
        }
    }

    /// Returns the size of the conversation as sent, in bytes.
    fn shown(&self) -> usize {
        self.head().saturating_add(self.rest())
    }

    /// Returns the size of the messages after the cut, in bytes.
    fn rest(&self) -> usize {
        let shares = self.shares();
        self.sizes.iter().skip(self.from).map(|size| size.shown(shares)).sum()
    }

    /// Returns the size of the text for the messages before the cut, in bytes.
    fn head(&self) -> usize {
        if self.from == 0 {
            return 0;
        }
        let shares = self.shares();
        let before = self.sizes.get(..self.from).unwrap_or_default();
        let [first, last] = self.ends();
        let bytes = |index: Option<usize>, share| {
            index.and_then(|index| before.get(index)).map_or(0, |size| size.prompt(share))
        };
        let prompts =
            bytes(first.filter(|first| last != Some(*first)), shares.first) + bytes(last, shares.prompt);
        let summary = self.summary.as_ref().map_or(0, |summary| summary.text.len().min(shares.summary));
        head::WORDS + summary + prompts + head::bytes(before, &self.said())
    }

    /// Returns the indices of the first and the last request of the person before the cut; no last one if a request
    /// directly follows the cut.
    fn ends(&self) -> [Option<usize>; 2] {
        let is_joined = self.sizes.get(self.from).is_some_and(|size| size.is_asked);
        let before = self.sizes.get(..self.from).unwrap_or_default();
        let last = before.iter().rposition(|size| size.is_asked).filter(|_| !is_joined);
        [before.iter().position(|size| size.is_asked), last]
    }

    /// Returns the indices of the short prompts between them that are kept verbatim.
    fn said(&self) -> BTreeSet<usize> {
        let before = self.sizes.get(..self.from).unwrap_or_default();
        let besides: Vec<usize> = self.ends().into_iter().flatten().collect();
        head::kept(before, &besides, self.shares().summary)
    }
}

fn prompt_of(message: &Message) -> Option<&Prompt> {
    match message {
        Message::User(prompt) => Some(prompt),
        Message::Turn(_) => None,
    }
}

/// Returns the prompt of a person; `None` for a question of haft.
fn asked_of(message: &Message) -> Option<&Prompt> {
    prompt_of(message).filter(|prompt| !is_own_question(prompt))
}

#[cfg(test)]
mod tests;
