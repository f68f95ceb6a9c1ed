//! Restores a conversation from the lines of its session, valid for every vendor if the file ends at any line. A
//! call without an answer does not count as done.

use jiff::Timestamp;

use super::{Begun, Ended, Entry, Line, Summarised};
use crate::prompt::awaits_model;
use crate::provider::{Exchange, Message, Prompt, Reply, Turn, Usage};
use haft_core::call::{ToolCall, ToolResult};

/// The answer to a call that was started and has no answer.
pub const UNKNOWN: &str = "the outcome of this call is unknown: haft ended while the call ran. The call may \
    have had all, some or none of its effects. Check before you repeat it";

/// The state of a session.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// The beginning of the session.
    pub begun: Begun,
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// A turn whose calls are not all answered.
    pub open: Option<Unanswered>,
    /// The end of the last task; `None` if it has not ended.
    pub ended: Option<Ended>,
    /// The summary of the beginning, if there is one.
    pub summary: Option<Summarised>,
    /// The number of messages that the model had read at its last turn, and their tokens as counted by the vendor.
    pub(crate) counted: Option<(usize, u64)>,
    /// The usage of all turns and summaries.
    pub usage: Usage,
    /// The number of model turns.
    pub turns: u32,
    /// The model of the last turn.
    pub model: String,
    /// The time of the last line.
    pub changed: Timestamp,
    /// The number of unreadable lines.
    pub broken: usize,
}

/// A turn during which haft ended.
#[derive(Clone, Debug)]
pub struct Unanswered {
    /// The reply of the model.
    pub reply: Reply,
    /// The state of each call.
    pub calls: Vec<Known>,
}

/// The state of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// The tool of the call never ran.
    Waiting,
    /// The tool of the call started, and the outcome is unknown.
    Running,
    /// The call has an answer.
    Answered(ToolResult),
}

impl Restored {
    /// Reads the state from the lines of `text`.
    pub fn parse(text: &str) -> Self {
        let mut restored = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match serde_json::from_str::<Line>(line) {
                Ok(line) => restored.add(line),
                Err(_) => restored.broken += 1,
            }
        }
        restored
    }

    /// Returns whether the model still has to act: on calls to run, on a prompt, or on answers to read.
    pub fn is_unfinished(&self) -> bool {
        self.open.is_some() || awaits_model(&self.messages)
    }

    /// Returns the calls that were started and have no answer.
    pub fn unknown(&self) -> impl Iterator<Item = &ToolCall> {
        let open = self.open.iter().flat_map(|open| open.reply.calls.iter().zip(&open.calls));
        open.filter(|(_, known)| **known == Known::Running).map(|(requested, _)| &requested.call)
    }

    fn add(&mut self, line: Line) {
        self.changed = line.time;
        match line.entry {
            Entry::Begun(begun) => self.begun = begun,
            Entry::Said(prompt) => {
                self.close();
                self.ended = None;
                push_prompt(&mut self.messages, prompt);
            }
            Entry::Turn(turn) => {
                self.close();
                self.ended = None;
                self.turn(*turn);
            }
            Entry::Running { call } => self.note(&call, Known::Running),
            Entry::Answered { call, result, .. } => self.note(&call, Known::Answered(result)),
            Entry::Ended(ended) => {
                self.close();
                self.ended = Some(ended);
            }
            Entry::Summarised(summary) => {
                self.usage += summary.usage;
                self.summary = Some(summary);
                // The count included messages that the model no longer sees.
                self.counted = None;
            }
            Entry::Resumed { .. } | Entry::Other => {}
        }
    }

    fn turn(&mut self, turn: Turn) {
        let Turn { reply, usage, model, .. } = turn;
        self.turns += 1;
        self.counted = Some((self.messages.len(), usage.input));
        self.usage += usage;
        self.model = model;
        let calls = vec![Known::Waiting; reply.calls.len()];
        self.open = Some(Unanswered { reply, calls });
        self.close_if_answered();
    }

    /// Sets the state of the first unanswered call with this id.
    fn note(&mut self, id: &str, known: Known) {
        let Some(Unanswered { reply, calls }) = &mut self.open else { return };
        let is_unanswered = |(requested, known): &(&crate::provider::RequestedCall, &mut Known)| {
            requested.call.id == id && !matches!(known, Known::Answered(_))
        };
        if let Some((_, found)) = reply.calls.iter().zip(calls).find(is_unanswered) {
            *found = known;
        }
        self.close_if_answered();
    }

    fn close_if_answered(&mut self) {
        let is_whole = |open: &Unanswered| open.calls.iter().all(|known| matches!(known, Known::Answered(_)));
        if self.open.as_ref().is_some_and(is_whole) {
            self.close();
        }
    }

    /// Moves the open turn into the conversation.
    fn close(&mut self) {
        if let Some(Unanswered { reply, calls }) = self.open.take() {
            record(&mut self.messages, Exchange::new(reply, calls.into_iter().map(Known::answer)));
        }
    }
}

impl Known {
    pub(crate) fn answer(self) -> ToolResult {
        match self {
            Self::Waiting => ToolResult::error("the call was not run"),
            Self::Running => ToolResult::error(UNKNOWN),
            Self::Answered(result) => result,
        }
    }
}

/// Adds a prompt. Consecutive prompts are joined: the templates of many models require alternating roles.
pub(crate) fn push_prompt(messages: &mut Vec<Message>, prompt: Prompt) {
    match messages.last_mut() {
        Some(Message::User(last)) => last.join(prompt),
        _ => messages.push(Message::User(prompt)),
    }
}

/// Adds a turn of the model, unless it is empty.
pub(crate) fn record(messages: &mut Vec<Message>, exchange: Exchange) {
    if !exchange.reply().is_empty() {
        messages.push(Message::Turn(exchange));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::{RequestedCall, Stop};
    use haft_core::call::ToolCall;

    fn turn(ids: &[&str]) -> Entry {
        let call = |id: &&str| ToolCall { id: (*id).into(), tool: "t".into(), arguments: json!({}) };
        let requested = |id| RequestedCall { call: call(id), problem: None };
        let reply =
            Reply { text: "so".into(), calls: ids.iter().map(requested).collect(), ..Reply::default() };
        let (usage, wasted, model) = (Usage::default(), Usage::default(), "m".into());
        Entry::Turn(Box::new(Turn { reply, stop: Stop::Done, usage, wasted, model }))
    }

    fn answered(id: &str) -> Entry {
        let (call, result) = (id.into(), ToolResult::success(id));
        Entry::Answered { call, result, duration_ms: 0, unknown: false }
    }

    fn text(entries: Vec<Entry>) -> String {
        let line = |entry| serde_json::to_string(&Line::now(entry)).unwrap() + "\n";
        entries.into_iter().map(line).collect()
    }

    fn whole() -> Vec<Entry> {
        vec![
            Entry::Begun(Begun::new(None, None, None)),
            Entry::Said("do".into()),
            turn(&["a", "b"]),
            Entry::Running { call: "a".into() },
            answered("a"),
            Entry::Running { call: "b".into() },
            answered("b"),
            turn(&[]),
            Entry::Ended(Ended { end: Some(crate::End::Final), error: None }),
            Entry::Said("and".into()),
        ]
    }

    /// PL20: if a session ends at any line, every vendor accepts the conversation, and the states of the calls are
    /// exactly those in the file.
    #[test]
    fn a_session_can_break_off_after_every_line() {
        for count in 0..=whole().len() {
            let restored = Restored::parse(&text(whole().into_iter().take(count).collect()));
            let open = restored.open.as_ref().map(|open| open.calls.clone());
            let known = |id: &str| Known::Answered(ToolResult::success(id));
            let expected = match count {
                3 => Some(vec![Known::Waiting, Known::Waiting]),
                4 => Some(vec![Known::Running, Known::Waiting]),
                5 => Some(vec![known("a"), Known::Waiting]),
                6 => Some(vec![known("a"), Known::Running]),
                _ => None,
            };
            assert_eq!(open, expected, "after {count} lines");
            assert_eq!(restored.is_unfinished(), !matches!(count, 0 | 1 | 8 | 9), "after {count} lines");
            let takes_turns = restored
                .messages
                .windows(2)
                .all(|pair| !matches!(pair, [Message::User(_), Message::User(_)]));
            assert!(takes_turns && restored.broken == 0);
        }
    }

    #[test]
    fn whoever_goes_on_talking_leaves_no_call_without_its_answer() {
        let lines = vec![Entry::Said("do".into()), turn(&["a", "b"]), Entry::Running { call: "a".into() }];
        let restored = Restored::parse(&text([lines, vec![Entry::Said("stop".into())]].concat()));
        let Message::Turn(exchange) = &restored.messages[1] else { panic!("{:?}", restored.messages) };
        let answers: Vec<_> = exchange.answered().map(|(_, result)| result.content.clone()).collect();
        assert_eq!(answers, [UNKNOWN, "the call was not run"]);
        assert_eq!(restored.messages[2], Message::User("stop".into()));
    }

    /// A count of the complete conversation does not apply after a summary.
    #[test]
    fn a_count_from_before_a_summary_is_not_believed() {
        let counted = |entries: Vec<Entry>| Restored::parse(&text(entries)).counted;
        let summarised = || {
            let (text, model, usage) = ("so far".into(), "m".into(), Usage::default());
            Entry::Summarised(Summarised { messages: 1, text, model, usage })
        };
        let said = vec![Entry::Said("do".into()), turn(&[]), Entry::Said("go on".into())];
        assert_eq!(counted(said.clone()), Some((1, 0)));
        assert_eq!(counted([said.clone(), vec![summarised()]].concat()), None);
        assert_eq!(counted([said, vec![summarised(), turn(&[])]].concat()), Some((3, 0)));
    }

    #[test]
    fn lines_that_are_none_are_counted_and_passed_over() {
        let mut text = text(whole());
        text.insert_str(0, "not json\n\n{\"kind\":\"said\"}\n");
        assert_eq!(Restored::parse(&text).broken, 2);
    }
}
