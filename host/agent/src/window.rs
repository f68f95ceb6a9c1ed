//! How much of a conversation a model is shown. Refuses to part a call from its answer, to leave out what the person
//! asked for first and last, to let one answer take the room of all others, and to move the cut at every turn: what
//! providers have cached ends at it.

mod cut;
mod files;
mod head;
mod said;
mod share;
mod shorten;
mod size;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use self::head::Head;
use self::share::{Share, Shares};
pub(crate) use self::shorten::{Keeper, READER, told};
use self::shorten::{is_larger, shorten};
use self::size::Size;
use crate::is_own_question;
use crate::provider::{Message, Prompt, TooLong};
use crate::session::Summary;

/// Bytes of 100 tokens, roughly, for every vendor's tokenizer: of English and code. Digits and other scripts take a
/// token for less, which the vendor's own count of the last turn tells.
const BYTES_OF_100: usize = 400;
/// The least that is believed of such a count: no tokenizer makes more tokens than bytes.
const LEAST_BYTES_OF_100: usize = 100;
/// Tokens of a request from which its bytes a token are reckoned: of less the vendor's own words are too large a part.
const COUNTED_FROM: u64 = 1000;
/// The part of the room that a single answer may take.
const SHARE: usize = 4;
/// The part of it that a file of an answer may take of which there is no showing a part, such as a picture.
const FILE_SHARE: usize = 2;
/// The part of it that what stands for the beginning may take.
const SUMMARY_SHARE: usize = 8;
/// The part of what the model reads that a prompt may take, in quarters. No budget is a reason to cut one.
const PROMPT_QUARTERS: usize = 3;
/// Bytes of an answer that are always shown.
const LEAST_SHARE: usize = 512;
/// Tokens that are left for what the model writes, at most; of a small window a quarter.
const LEFT_FOR_ANSWER: u32 = 16_384;
/// Bytes of a conversation that no refusal is a reason to shorten.
const LEAST_SHOWN: usize = 1024;

/// What there is room for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// Rough tokens of the conversation; `None`: no limit.
    pub(super) history: Option<u32>,
    /// Tokens that the model reads and writes at once; `None`: not known.
    pub(super) window: Option<u32>,
    /// Bytes of every request beside the conversation: the system prompt and the tools.
    pub(super) fixed: usize,
}

/// Where the cut is in a growing conversation. It stays from one task to the next.
#[derive(Clone, Debug)]
pub(super) struct Window {
    room: Room,
    /// The model that the following was learnt of.
    model: String,
    bytes_of_100: usize,
    /// Bytes that may be shown, whatever the estimates say: learnt from refusals.
    ceiling: usize,
    /// Tokens that it reads at most, by its refusals.
    limit: u32,
    /// Bytes of each message so far.
    sizes: Vec<Size>,
    /// The first message that is shown as it is.
    from: usize,
    summary: Option<Summary>,
    /// Whether files that are no text are left out: learnt from refusals.
    is_without_files: bool,
    /// What an earlier process was told: how many messages were shown, and their tokens.
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
    /// That of a conversation of which `summary` stands for the beginning, and of which the vendor `counted` the tokens
    /// of so many messages.
    pub(super) fn after(summary: Option<Summary>, counted: Option<(usize, u64)>) -> Self {
        let from = summary.as_ref().map_or(0, |summary| summary.messages);
        Self { from, summary, counted, ..Self::default() }
    }

    /// Shows what `model` has `room` for. What was learnt of another model does not hold for it.
    pub(super) fn begin(&mut self, model: &str, room: Room) {
        if self.model != model {
            let (sizes, summary) = (std::mem::take(&mut self.sizes), self.summary.take());
            let (from, counted) = (self.from, self.counted.take());
            *self = Self { model: model.to_owned(), sizes, from, summary, counted, ..Self::default() };
        }
        self.room = room;
    }

    /// Moves the cut where `messages` have outgrown the room; those that are left out from now on, if it was moved.
    pub(super) fn fit(&mut self, messages: &[Message]) -> Option<Range<usize>> {
        self.measure(messages);
        if self.rest() <= self.budget_of_rest() {
            return None;
        }
        let before = self.from;
        // Well below the budget, so that the next cut is many turns away. The last message always stays.
        while self.rest() > self.budget_of_rest() / 2 && self.from + 1 < messages.len() {
            self.from += 1;
        }
        (self.from > before).then_some(before..self.from)
    }

    fn measure(&mut self, messages: &[Message]) {
        // What is said before the model came to answer joins the last message.
        let known = self.sizes.len().saturating_sub(1);
        self.sizes.truncate(known);
        self.sizes.extend(messages.iter().skip(known).map(Size::new));
        // A session's file that lost lines.
        self.from = self.from.min(messages.len().saturating_sub(1));
        self.recall();
    }

    /// Moves the cut to the last message; those that are left out from now on, if there are any more.
    pub(super) fn cut(&mut self, messages: &[Message]) -> Option<Range<usize>> {
        self.measure(messages);
        let before = self.from;
        self.from = messages.len().saturating_sub(1).max(before);
        (self.from > before).then_some(before..self.from)
    }

    /// Moves the cut back to where it was.
    pub(super) fn uncut(&mut self, from: usize) {
        self.from = from;
    }

    /// Tokens of a request with `messages`, roughly, and those that the model reads, where that is known.
    pub(super) fn fill(&mut self, messages: &[Message]) -> (usize, Option<u32>) {
        self.measure(messages);
        let bytes = self.shown().saturating_add(self.room.fixed);
        (bytes.saturating_mul(100) / self.bytes_of_100, self.tokens())
    }

    /// What stands for the beginning from now on.
    pub(super) fn sum_up(&mut self, summary: Summary) {
        self.summary = Some(summary);
    }

    /// What stands for the beginning.
    pub(super) fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// Bytes that what stands for the beginning may take.
    pub(super) fn room_of_summary(&self) -> usize {
        self.shares().summary
    }

    /// Bytes of 100 tokens of this conversation.
    pub(super) fn bytes_of_100(&self) -> usize {
        self.bytes_of_100
    }

    /// What the model is shown of `messages`: what came after the cut, and before it what a person had asked for first
    /// and last, with what stands for the rest; of an answer that is larger than its share, the beginning and the end.
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
        // A prompt right after the cut is joined to what stands for the messages before it: what a person asks, or,
        // after that, what haft asks by itself.
        let joined = after.first().filter(|message| matches!(message, Message::User(_)));
        let own = joined.and_then(asked_of);
        let question = joined.filter(|_| own.is_none());
        let first = messages.iter().find_map(asked_of);
        let asked = own.or_else(|| before.iter().rev().find_map(asked_of));
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

    /// Learns from the vendor's count of the tokens of what was shown last.
    pub(super) fn count(&mut self, tokens: u64) {
        let bytes = self.shown().saturating_add(self.room.fixed);
        let Some(tokens) = usize::try_from(tokens).ok().filter(|_| tokens >= COUNTED_FROM) else { return };
        self.learn(bytes, tokens);
    }

    /// Learns what an earlier process was told of the tokens of the first messages.
    fn recall(&mut self) {
        let Some((messages, tokens)) = self.counted.take() else { return };
        // What was left out since was shown then.
        if messages > self.from && messages <= self.sizes.len() {
            let later = self.sizes.split_off(messages);
            self.count(tokens);
            self.sizes.extend(later);
        }
    }

    /// Learns from a refusal of what was shown last; whether less can be shown.
    pub(super) fn shrink(&mut self, refusal: TooLong) -> bool {
        let shown = self.shown();
        if let Some(asked) = refusal.asked.and_then(|asked| usize::try_from(asked).ok()) {
            self.learn(shown.saturating_add(self.room.fixed), asked);
        }
        if let Some(limit) = refusal.limit {
            self.limit = self.limit.min(limit);
        }
        // Whatever it said, less than the last time.
        self.ceiling = self.ceiling.min(shown / 4 * 3);
        shown > LEAST_SHOWN
    }

    /// Leaves out all files that are no text, where nothing else is left to leave out; whether there are such files,
    /// and they were shown up to now.
    pub(super) fn leave_out_files(&mut self) -> bool {
        let is_change = !self.is_without_files && self.sizes.iter().any(Size::has_files);
        self.is_without_files |= is_change;
        is_change
    }

    /// Takes a count that is less favourable than what was believed. Small steps would move what is shown for nothing.
    fn learn(&mut self, bytes: usize, tokens: usize) {
        let counted = (bytes.saturating_mul(100) / tokens.max(1)).clamp(LEAST_BYTES_OF_100, BYTES_OF_100);
        if counted < self.bytes_of_100 / 10 * 9 {
            self.bytes_of_100 = counted;
        }
    }

    /// Tokens that the model reads and writes at once, as far as that is known.
    pub(super) fn tokens(&self) -> Option<u32> {
        let learnt = Some(self.limit).filter(|limit| *limit < u32::MAX);
        self.room.window.map_or(learnt, |window| Some(window.min(self.limit)))
    }

    /// Bytes of the conversation that may be shown.
    fn budget(&self) -> usize {
        let bytes = |tokens: u32| usize::try_from(tokens).map_or(usize::MAX, |tokens| self.bytes(tokens));
        self.room.history.map_or(usize::MAX, bytes).min(self.readable())
    }

    /// Bytes of it that may be shown after the cut. However long what stands before it is, some turns are.
    fn budget_of_rest(&self) -> usize {
        let budget = self.budget();
        budget.saturating_sub(self.head()).max(budget / 4)
    }

    /// Bytes of the conversation that the model can read.
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

    /// Bytes of what is shown.
    fn shown(&self) -> usize {
        self.head().saturating_add(self.rest())
    }

    /// Bytes of what is shown after the cut.
    fn rest(&self) -> usize {
        let shares = self.shares();
        self.sizes.iter().skip(self.from).map(|size| size.shown(shares)).sum()
    }

    /// Bytes of what stands for the messages before the cut.
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
        head::WORDS + summary + prompts + said::bytes(before, &self.said())
    }

    /// The first and the last prompt of a person before the cut. The last is none of them where one is right after it.
    fn ends(&self) -> [Option<usize>; 2] {
        let is_joined = self.sizes.get(self.from).is_some_and(|size| size.is_asked);
        let before = self.sizes.get(..self.from).unwrap_or_default();
        let last = before.iter().rposition(|size| size.is_asked).filter(|_| !is_joined);
        [before.iter().position(|size| size.is_asked), last]
    }

    /// The prompts between them that stay in their own words.
    fn said(&self) -> BTreeSet<usize> {
        let before = self.sizes.get(..self.from).unwrap_or_default();
        let besides: Vec<usize> = self.ends().into_iter().flatten().collect();
        said::kept(before, &besides, self.shares().summary)
    }
}

fn prompt_of(message: &Message) -> Option<&Prompt> {
    match message {
        Message::User(said) => Some(said),
        Message::Turn(_) => None,
    }
}

/// What a person asked: what haft asked is none of that.
fn asked_of(message: &Message) -> Option<&Prompt> {
    prompt_of(message).filter(|said| !is_own_question(said))
}

#[cfg(test)]
mod tests;
