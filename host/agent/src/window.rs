//! How much of a conversation a model is shown. Refuses to part a call from its answer, to leave out what the person
//! asked for last, to let one answer take the room of all others, and to move the cut at every turn: what providers have
//! cached ends at it.

mod files;

use std::borrow::Cow;

use haft_core::call::ToolResult;
use haft_core::tool::{Keep, clip};

use self::files::{cut_files, files, texts};
use crate::AFTER_NOTHING;
use crate::provider::{Exchange, Message, Prompt, TooLong};

/// Bytes of 100 tokens, roughly, for every vendor's tokenizer: of English and code. Digits and other scripts take a
/// token for less, which the vendor's own count of the last turn tells.
const BYTES_OF_100: usize = 400;
/// The least that is believed of such a count: no tokenizer makes more tokens than bytes.
const LEAST_BYTES_OF_100: usize = 100;
/// Tokens of a request from which its bytes a token are reckoned: of less the vendor's own words are too large a part.
const COUNTED_FROM: u64 = 1000;
/// The part of the room that a single answer may take.
const SHARE: usize = 4;
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

/// Where the cut is in a growing conversation.
pub(super) struct Window {
    room: Room,
    bytes_of_100: usize,
    /// Bytes that may be shown, whatever the estimates say: learnt from refusals.
    ceiling: usize,
    /// Bytes of each message so far.
    sizes: Vec<Size>,
    /// The first message that is shown as it is.
    from: usize,
}

/// Bytes of single texts that are shown.
#[derive(Clone, Copy)]
struct Shares {
    prompt: usize,
    answer: usize,
}

/// Bytes of a message: of the texts of a prompt and of answers, each of which may be cut, and of everything else.
struct Size {
    prompt: Vec<usize>,
    answers: Vec<usize>,
    rest: usize,
}

impl Size {
    fn new(message: &Message) -> Self {
        match message {
            Message::User(said) => Self {
                prompt: texts(&said.text, &said.attachments).collect(),
                answers: Vec::new(),
                rest: files(&said.attachments),
            },
            Message::Turn(exchange) => {
                let results = || exchange.answered().map(|(_, result)| result);
                let files: usize = results().map(|result| files(&result.attachments)).sum();
                Self {
                    prompt: Vec::new(),
                    answers: results()
                        .flat_map(|result| texts(&result.content, &result.attachments))
                        .collect(),
                    rest: own_bytes(exchange) + files,
                }
            }
        }
    }

    fn shown(&self, shares: Shares) -> usize {
        let cut =
            |texts: &[usize], share: usize| texts.iter().map(|bytes| (*bytes).min(share)).sum::<usize>();
        cut(&self.prompt, shares.prompt) + cut(&self.answers, shares.answer) + self.rest
    }
}

impl Window {
    /// Shows what there is `room` for.
    pub(super) fn new(room: Room) -> Self {
        Self { room, bytes_of_100: BYTES_OF_100, ceiling: usize::MAX, sizes: Vec::new(), from: 0 }
    }

    /// Moves the cut where `messages` have outgrown the room; how many are left out if it was moved.
    pub(super) fn fit(&mut self, messages: &[Message]) -> Option<usize> {
        let known = self.sizes.len();
        self.sizes.extend(messages.iter().skip(known).map(Size::new));
        let (budget, mut shown) = (self.budget(), self.shown());
        if shown <= budget {
            return None;
        }
        let before = self.from;
        // Well below the budget, so that the next cut is many turns away. The last message always stays.
        let (aim, shares) = (budget / 2, self.shares());
        while shown > aim && self.from + 1 < messages.len() {
            shown -= self.sizes.get(self.from).map_or(0, |size| size.shown(shares));
            self.from += 1;
        }
        (self.from > before).then_some(self.from)
    }

    /// What the model is shown of `messages`: what came after the cut, and before it what a person had asked for last;
    /// of an answer that is larger than its share, the beginning and the end.
    pub(super) fn visible<'m>(&self, messages: &'m [Message]) -> Cow<'m, [Message]> {
        let shares = self.shares();
        let is_large = |message: &Message| is_larger(message, shares);
        if self.from == 0 && !messages.iter().any(is_large) {
            return Cow::Borrowed(messages);
        }
        let shortened = |message: &Message| shorten(message, shares);
        if self.from == 0 {
            return Cow::Owned(messages.iter().map(shortened).collect());
        }
        let (before, after) = messages.split_at_checked(self.from).unwrap_or((messages, &[]));
        let (asked, rest) = match after.split_first() {
            Some((Message::User(said), rest)) if said.text != AFTER_NOTHING => (Some(said), rest),
            Some((Message::User(_), rest)) => (before.iter().rev().find_map(asked), rest),
            _ => (before.iter().rev().find_map(asked), after),
        };
        let note = format!(
            "[The first {} messages of this conversation are left out here for want of room.]\n\n{}",
            self.from,
            asked.map(|said| cut(&said.text, shares.prompt, PROMPT_CUT)).unwrap_or_default()
        );
        let attachments = asked.map(|said| cut_files(&said.attachments, shares.prompt, PROMPT_CUT));
        let note = Prompt { text: note, attachments: attachments.unwrap_or_default() };
        Cow::Owned(std::iter::once(Message::User(note)).chain(rest.iter().map(shortened)).collect())
    }

    /// Learns from the vendor's count of the tokens of what was shown last.
    pub(super) fn count(&mut self, tokens: u64) {
        let bytes = self.shown().saturating_add(self.room.fixed);
        let Some(tokens) = usize::try_from(tokens).ok().filter(|_| tokens >= COUNTED_FROM) else { return };
        self.learn(bytes, tokens);
    }

    /// Learns from a refusal of what was shown last; whether less can be shown.
    pub(super) fn shrink(&mut self, refusal: TooLong) -> bool {
        let shown = self.shown();
        if let Some(asked) = refusal.asked.and_then(|asked| usize::try_from(asked).ok()) {
            self.learn(shown.saturating_add(self.room.fixed), asked);
        }
        if let Some(limit) = refusal.limit {
            self.room.window = Some(self.room.window.map_or(limit, |known| known.min(limit)));
        }
        // Whatever it said, less than the last time.
        self.ceiling = self.ceiling.min(shown / 4 * 3);
        shown > LEAST_SHOWN
    }

    /// Takes a count that is less favourable than what was believed. Small steps would move what is shown for nothing.
    fn learn(&mut self, bytes: usize, tokens: usize) {
        let counted = (bytes.saturating_mul(100) / tokens.max(1)).clamp(LEAST_BYTES_OF_100, BYTES_OF_100);
        if counted < self.bytes_of_100 / 10 * 9 {
            self.bytes_of_100 = counted;
        }
    }

    /// Bytes of the conversation that may be shown.
    fn budget(&self) -> usize {
        let bytes = |tokens: u32| usize::try_from(tokens).map_or(usize::MAX, |tokens| self.bytes(tokens));
        self.room.history.map_or(usize::MAX, bytes).min(self.readable())
    }

    /// Bytes of the conversation that the model can read.
    fn readable(&self) -> usize {
        let window = self.room.window.map(|window| window - LEFT_FOR_ANSWER.min(window / 4));
        let bytes =
            window.map(|tokens| usize::try_from(tokens).map_or(usize::MAX, |tokens| self.bytes(tokens)));
        bytes.map_or(usize::MAX, |bytes| bytes.saturating_sub(self.room.fixed)).min(self.ceiling)
    }

    fn bytes(&self, tokens: usize) -> usize {
        tokens.saturating_mul(self.bytes_of_100) / 100
    }

    fn shares(&self) -> Shares {
        let prompt = (self.readable() / 4).saturating_mul(PROMPT_QUARTERS).max(LEAST_SHARE);
        Shares { prompt, answer: (self.budget() / SHARE).max(LEAST_SHARE) }
    }

    /// Bytes of what is shown.
    fn shown(&self) -> usize {
        let shares = self.shares();
        self.sizes.iter().skip(self.from).map(|size| size.shown(shares)).sum()
    }
}

fn asked(message: &Message) -> Option<&Prompt> {
    match message {
        // What haft asked is not what the person asked.
        Message::User(said) => Some(said).filter(|said| said.text != AFTER_NOTHING),
        Message::Turn(_) => None,
    }
}

/// What is said where an answer is cut.
const ANSWER_CUT: &str = "is more than fits into this conversation; ask for a part of it to see the rest";
/// What is said where a prompt is cut.
const PROMPT_CUT: &str = "is more than fits into this conversation";

fn is_larger(message: &Message, shares: Shares) -> bool {
    match message {
        Message::User(said) => texts(&said.text, &said.attachments).any(|bytes| bytes > shares.prompt),
        Message::Turn(exchange) => exchange
            .answered()
            .flat_map(|(_, result)| texts(&result.content, &result.attachments))
            .any(|bytes| bytes > shares.answer),
    }
}

fn shorten(message: &Message, shares: Shares) -> Message {
    match message {
        Message::User(said) => Message::User(Prompt {
            text: cut(&said.text, shares.prompt, PROMPT_CUT),
            attachments: cut_files(&said.attachments, shares.prompt, PROMPT_CUT),
        }),
        Message::Turn(exchange) if is_larger(message, shares) => {
            let answers = exchange.answered().map(|(_, result)| {
                let content = cut(&result.content, shares.answer, ANSWER_CUT);
                let attachments = cut_files(&result.attachments, shares.answer, ANSWER_CUT);
                ToolResult { content, attachments, ..result.clone() }
            });
            Message::Turn(Exchange::new(exchange.reply().clone(), answers))
        }
        Message::Turn(_) => message.clone(),
    }
}

/// The beginning and the end of a text that is longer than `share`, and that this is not all.
fn cut(text: &str, share: usize, why: &str) -> String {
    if text.len() <= share {
        return text.to_owned();
    }
    let characters = text.chars().count();
    // As many characters as have that many bytes.
    let room = share.saturating_mul(characters) / text.len();
    format!("[haft: this text of {} bytes {why}.]\n{}", text.len(), clip(text, room, Keep::Ends))
}

/// Bytes of a turn beside its answers.
fn own_bytes(exchange: &Exchange) -> usize {
    let reply = exchange.reply();
    let own = if reply.raw.is_null() { 0 } else { reply.raw.to_string().len() };
    let calls = reply
        .calls
        .iter()
        .map(|requested| requested.call.tool.len() + requested.call.arguments.to_string().len());
    own.max(reply.text.len() + calls.sum::<usize>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::provider::{Reply, RequestedCall};
    use haft_core::call::{ToolCall, ToolResult};

    fn turn(bytes: usize) -> Message {
        let call = ToolCall { id: "a".into(), tool: "t".into(), arguments: json!({}) };
        let reply = Reply { calls: vec![RequestedCall { call, problem: None }], ..Reply::default() };
        Message::Turn(Exchange::new(reply, [ToolResult::success("x".repeat(bytes))]))
    }

    fn says(text: &str) -> Message {
        Message::User(text.into())
    }

    fn history(tokens: u32) -> Room {
        Room { history: Some(tokens), ..Room::default() }
    }

    fn bytes(message: &Message) -> usize {
        Size::new(message).shown(Shares { prompt: usize::MAX, answer: usize::MAX })
    }

    fn shown(window: &Window, messages: &[Message]) -> usize {
        window.visible(messages).iter().map(bytes).sum()
    }

    /// G02: one answer of megabytes leaves room for the task and for the next ones.
    #[test]
    fn g02_a_single_answer_never_takes_more_than_its_share() {
        let messages = vec![says("the task"), turn(3 << 20)];
        for room in [history(4000), Room { window: Some(6000), fixed: 2000, ..Room::default() }] {
            let mut window = Window::new(room);
            assert_eq!(window.fit(&messages), None);
            let all = window.visible(&messages).into_owned();
            assert!(matches!(&all[0], Message::User(said) if said.text == "the task"));
            let Message::Turn(exchange) = &all[1] else { panic!() };
            let text = &exchange.answered().next().unwrap().1.content;
            assert!(text.len() <= 16_000 / SHARE + 200, "{}", text.len());
            assert!(text.starts_with("[haft: this text of 3145728 bytes is more"));
            assert!(shown(&window, &messages) < 5000);
        }
    }

    /// G02: the vendor's own count of the last turn corrects the estimate, digits being three tokens for four bytes.
    #[test]
    fn g02_tokens_are_estimated_by_the_vendor_s_own_count() {
        let messages: Vec<_> = std::iter::once(says("the task")).chain((0..30).map(|_| turn(1000))).collect();
        let mut window = Window::new(history(10_000));
        assert_eq!(window.fit(&messages), None);
        window.count(24_000);
        assert!(window.fit(&messages).is_some());
        assert!(shown(&window, &messages) < 12_500 / 2 + 1200, "{}", shown(&window, &messages));
        window.count(100);
        window.count(1500);
        assert_eq!(window.fit(&messages), None, "a count is never a reason to show more");
    }

    /// A long prompt (a diff, a log) is what the person asked: no budget cuts it, only what the model can read.
    #[test]
    fn a_long_prompt_is_shown_whole_where_the_model_can_read_it() {
        let messages = vec![says(&"diff ".repeat(60_000))];
        for room in [history(100_000), history(1000), Room { window: Some(200_000), ..history(1000) }] {
            let mut window = Window::new(room);
            window.fit(&messages);
            assert_eq!(shown(&window, &messages), 300_000, "{room:?}");
        }
        let mut small = Window::new(Room { window: Some(16_384), ..Room::default() });
        small.fit(&messages);
        assert!((20_000..50_000).contains(&shown(&small, &messages)), "{}", shown(&small, &messages));
    }

    /// The task stays known after a cut, also where haft had asked the model to go on since.
    #[test]
    fn a_request_to_go_on_does_not_take_the_place_of_the_task() {
        for after in [0, 1] {
            let mut messages = vec![says("the task")];
            messages.extend((0..8).map(|_| turn(900)));
            messages.push(says(AFTER_NOTHING));
            messages.extend((0..after).map(|_| turn(900)));
            let mut window = Window::new(history(500));
            window.fit(&messages);
            let all = window.visible(&messages).into_owned();
            assert!(
                matches!(&all[0], Message::User(said) if said.text.ends_with("the task")),
                "{:?}",
                all[0]
            );
        }
    }

    /// G02: a refusal is answered by showing less, until there is nothing more to leave out.
    #[test]
    fn g02_a_refusal_shrinks_what_is_shown() {
        let messages: Vec<_> = std::iter::once(says("the task")).chain((0..30).map(|_| turn(1000))).collect();
        let mut window = Window::new(Room::default());
        window.fit(&messages);
        let mut before = shown(&window, &messages);
        let mut shrunk = 0;
        while window.shrink(TooLong::default()) {
            window.fit(&messages);
            let now = shown(&window, &messages);
            assert!(now < before || now < 2000, "{now} after {before}");
            (before, shrunk) = (now, shrunk + 1);
        }
        assert!((2..12).contains(&shrunk), "{shrunk}");
        let mut told = Window::new(Room::default());
        told.fit(&messages);
        assert!(told.shrink(TooLong { limit: Some(2000), asked: Some(8000) }));
        told.fit(&messages);
        assert!(shown(&told, &messages) < 2000 * 4, "{}", shown(&told, &messages));
    }

    #[test]
    fn a_long_run_keeps_its_task_and_its_latest_steps() {
        let mut messages = vec![says("the task")];
        let mut window = Window::new(history(1000));
        let mut cuts = Vec::new();
        for _ in 0..40 {
            messages.push(turn(500));
            cuts.extend(window.fit(&messages));
            let shown = window.visible(&messages);
            assert!(matches!(&shown[0], Message::User(said) if said.text.ends_with("the task")));
            assert!(shown.iter().map(bytes).sum::<usize>() < 4000 + 200);
            assert_eq!(shown.last(), messages.last());
        }
        assert!(cuts.len() < 12, "a prompt cache lives between two cuts: {cuts:?}");
    }

    #[test]
    fn what_is_asked_after_a_cut_is_the_task() {
        let turns = (0..4).map(|_| turn(9000));
        let messages: Vec<_> =
            [says("old")].into_iter().chain(turns).chain([says("new"), turn(10)]).collect();
        let mut window = Window::new(history(250));
        assert_eq!(window.fit(&messages), Some(5));
        let shown = window.visible(&messages);
        assert_eq!(shown.len(), 2);
        assert!(
            matches!(&shown[0], Message::User(said) if said.text.contains("first 5 messages") && said.text.ends_with("new"))
        );
    }

    #[test]
    fn what_fits_is_shown_as_it_is() {
        let messages = vec![says("x"), turn(10)];
        let mut window = Window::new(Room::default());
        assert_eq!(window.fit(&messages), None);
        assert!(matches!(window.visible(&messages), Cow::Borrowed(_)));
    }

    proptest! {
        /// PL20: whatever is cut away, the first message is a person's, and roles alternate.
        #[test]
        fn pl20_what_is_shown_is_valid(sizes in prop::collection::vec(0_usize..3000, 1..40), budget in 1_u32..3000) {
            let mut messages = vec![says("task")];
            let mut window = Window::new(history(budget));
            for size in sizes {
                let next = if size % 5 == 0 && matches!(messages.last(), Some(Message::Turn(_))) { says("go on") } else { turn(size) };
                messages.push(next);
                window.fit(&messages);
                let shown = window.visible(&messages);
                prop_assert!(matches!(shown[0], Message::User(_)));
                prop_assert!(!shown.windows(2).any(|pair| matches!(pair, [Message::User(_), Message::User(_)])));
            }
        }
    }
}
