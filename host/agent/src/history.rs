//! A conversation that every vendor accepts as it stands, at every moment: calls come with their answers, no message
//! is empty, and roles alternate. With a session, holds only what is on file.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::plan::is_planned;
use super::session::{
    Ended, Entry, Known, Place, Restored, SessionError, SessionLog, Summarised, Summary, Turned, Unanswered,
    push_prompt, record,
};
use super::window::{Window, told};
use crate::provider::{Exchange, Message, Prompt, Reply, RequestedCall, Usage};
use haft_core::call::{ToolCall, ToolResult};
use haft_core::sync::Lock;
use haft_core::tool::{Ledger, Session};

/// A conversation so far.
#[derive(Clone, Debug, Default)]
pub struct History {
    messages: Vec<Message>,
    /// A turn whose calls are being made, or were when a run was dropped.
    open: Option<Arc<OpenTurn>>,
    log: Option<SessionLog>,
    /// How much of it a model is shown.
    window: Window,
}

/// A turn whose calls are being made.
#[derive(Debug)]
pub(super) struct OpenTurn {
    reply: Reply,
    calls: Lock<Vec<Known>>,
    log: Option<SessionLog>,
    /// The place that it will have among the messages.
    message: usize,
}

impl History {
    /// A conversation that begins now with what a person `said`, and is kept in `log`, which has that already.
    pub fn logged(log: SessionLog, said: impl Into<Prompt>) -> Self {
        let mut messages = Vec::new();
        push_prompt(&mut messages, said.into());
        Self { messages, log: Some(log), ..Self::default() }
    }

    /// The conversation of a session, which is continued in `log` where there is one. A call that was begun and has
    /// no answer is answered here: its outcome is unknown.
    pub fn restored(restored: Restored, log: Option<SessionLog>) -> Result<Self, SessionError> {
        let message = restored.messages.len();
        let open = restored.open.map(|Unanswered { reply, calls }| {
            let log = log.clone();
            Arc::new(OpenTurn { reply, calls: Lock::new(calls), log, message })
        });
        if let Some(open) = &open {
            open.give_up()?;
        }
        let window = Window::after(restored.summary, restored.counted);
        Ok(Self { messages: restored.messages, open, log, window })
    }

    /// What was said, oldest first. A turn whose calls are not all answered is not among it yet.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The session it is kept in.
    pub fn log(&self) -> Option<&SessionLog> {
        self.log.as_ref()
    }

    /// Whether the model has something left to say: calls that are to be made or answers to read.
    pub fn is_unfinished(&self) -> bool {
        match self.messages.last() {
            _ if self.open.is_some() => true,
            Some(Message::User(_)) => true,
            Some(Message::Turn(exchange)) => {
                exchange.reply().unfinished || exchange.answered().next().is_some()
            }
            None => false,
        }
    }

    /// Whether what a person said last was said in [plan mode](crate::planned).
    pub fn is_planned(&self) -> bool {
        is_planned(&self.messages)
    }

    /// Adds what a person said.
    pub fn push_prompt(&mut self, said: impl Into<Prompt>) -> Result<(), SessionError> {
        let said = said.into();
        self.close();
        self.note(|| Entry::said(&said))?;
        push_prompt(&mut self.messages, said);
        Ok(())
    }

    /// Begins a turn of the model. Its calls are to be answered next, and then it is to be [closed](Self::close).
    pub(super) fn open(&mut self, turned: Turned) -> Result<(), SessionError> {
        self.note(|| Entry::Turn(Box::new(turned.clone())))?;
        let calls = Lock::new(vec![Known::Waiting; turned.reply.calls.len()]);
        let (reply, log, message) = (turned.reply, self.log.clone(), self.messages.len());
        self.open = Some(Arc::new(OpenTurn { reply, calls, log, message }));
        Ok(())
    }

    /// The turn whose calls are to be answered.
    pub(super) fn opened(&self) -> Option<Arc<OpenTurn>> {
        self.open.clone()
    }

    /// Puts the turn into the conversation, with the answers that it has got.
    pub(super) fn close(&mut self) {
        if let Some(open) = self.open.take() {
            let calls = std::mem::take(&mut *open.calls.lock());
            let answers = calls.into_iter().map(Known::answer);
            record(&mut self.messages, Exchange::new(open.reply.clone(), answers));
        }
    }

    /// How much of it a model is shown, and all of it.
    pub(super) fn window(&mut self) -> (&mut Window, &[Message]) {
        (&mut self.window, &self.messages)
    }

    /// What a model is shown of it. Of answers that are cut the whole is kept where `is_kept`.
    pub(super) fn visible(&self, is_kept: bool) -> Cow<'_, [Message]> {
        let log = self.log.as_ref().filter(|_| is_kept);
        self.window.visible(&self.messages, &|place, text| log?.keep_answer(place, text))
    }

    /// What stands for its beginning from now on, and what that cost.
    pub(super) fn sum_up(&mut self, summary: Summary, usage: Usage) -> Result<(), SessionError> {
        let Summary { messages, text, model } = summary.clone();
        self.note(|| Entry::Summarised(Summarised { messages, text, model, usage }))?;
        self.window.sum_up(summary);
        Ok(())
    }

    /// Notes how what a person asked for ended.
    pub(super) fn end(&self, ended: impl FnOnce() -> Ended) -> Result<(), SessionError> {
        self.note(|| Entry::Ended(ended()))
    }

    fn note(&self, entry: impl FnOnce() -> Entry) -> Result<(), SessionError> {
        self.log.as_ref().map_or(Ok(()), |log| log.note(entry()))
    }
}

impl OpenTurn {
    /// The calls, in order.
    pub(super) fn requested(&self) -> &[RequestedCall] {
        &self.reply.calls
    }

    /// Whether a call still has to be made.
    pub(super) fn is_waiting(&self, index: usize) -> bool {
        self.calls.lock().get(index) == Some(&Known::Waiting)
    }

    /// Notes the answer to a call.
    pub(super) fn answer(
        &self,
        index: usize,
        result: ToolResult,
        time: Duration,
    ) -> Result<(), SessionError> {
        self.note(index, &result, time, false)?;
        self.set(index, Known::Answered(result));
        Ok(())
    }

    /// Whether the whole of answers is kept of which a tool tells a part.
    pub(super) fn keeps_answers(&self) -> bool {
        self.log.as_ref().is_some_and(SessionLog::keeps_answers)
    }

    /// `result` with word of where the `whole` of it is, if it can be kept.
    pub(super) fn keep(&self, index: usize, mut result: ToolResult, whole: Option<String>) -> ToolResult {
        let place = Place { message: self.message, call: index };
        let kept = whole.zip(self.log.as_ref()).and_then(|(whole, log)| log.keep_answer(place, &whole));
        if let Some(kept) = kept {
            result.content = format!("{}\n[haft: {}]", result.content, told(&kept));
        }
        result
    }

    /// `session`, whose calls are those of this turn.
    pub(super) fn session(self: &Arc<Self>, session: &Session) -> Session {
        let (open, outer) = (self.clone(), session.ledger.clone());
        let ledger = Ledger::to(move |call| {
            outer.enter(call)?;
            open.enter(call)
        });
        Session { ledger, ..session.clone() }
    }

    /// Notes that the tool of a call runs from now on.
    fn enter(&self, call: &ToolCall) -> io::Result<()> {
        let is_it = |index: &usize| {
            self.requested().get(*index).is_some_and(|requested| requested.call.id == call.id)
        };
        let waiting = (0..self.calls.lock().len()).filter(|index| self.is_waiting(*index));
        let Some(index) = waiting.into_iter().find(is_it) else { return Ok(()) };
        if let Some(log) = &self.log {
            log.note(Entry::Running { call: call.id.clone() }).map_err(io::Error::other)?;
        }
        self.set(index, Known::Running);
        Ok(())
    }

    /// Answers the calls that were begun and whose outcome is unknown.
    fn give_up(&self) -> Result<(), SessionError> {
        let calls = self.calls.lock().clone();
        for (index, known) in calls.into_iter().enumerate().filter(|(_, known)| *known == Known::Running) {
            let result = known.answer();
            self.note(index, &result, Duration::ZERO, true)?;
            self.set(index, Known::Answered(result));
        }
        Ok(())
    }

    fn note(
        &self,
        index: usize,
        result: &ToolResult,
        time: Duration,
        unknown: bool,
    ) -> Result<(), SessionError> {
        let (Some(log), Some(requested)) = (&self.log, self.requested().get(index)) else { return Ok(()) };
        let (call, result) = (requested.call.id.clone(), result.clone());
        let duration_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        log.note(Entry::Answered { call, result, duration_ms, unknown })
    }

    fn set(&self, index: usize, known: Known) {
        if let Some(call) = self.calls.lock().get_mut(index) {
            *call = known;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{Stop, Usage};

    fn prompt(text: &str) -> Turned {
        let reply = Reply { text: text.into(), ..Reply::default() };
        Turned { reply, stop: Stop::Done, usage: Usage::default(), model: "m".into() }
    }

    /// PL20.
    #[test]
    fn pl20_what_is_said_again_joins_what_was_said_before() {
        let mut history = History::default();
        history.push_prompt("one").unwrap();
        history.push_prompt("two").unwrap();
        assert_eq!(history.messages(), [Message::User("one\n\ntwo".into())]);
        history.open(prompt("yes")).unwrap();
        history.close();
        history.push_prompt("three").unwrap();
        assert_eq!(history.messages().len(), 3);
    }

    /// PL20.
    #[test]
    fn pl20_an_empty_turn_is_not_kept() {
        let mut history = History::default();
        history.open(prompt("")).unwrap();
        history.close();
        assert_eq!(history.messages(), []);
    }
}
