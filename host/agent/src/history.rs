//! A conversation in a form that every vendor accepts, at every moment: each call has its answer, no message is
//! empty, and roles alternate. With a session, the conversation holds only messages that are saved in its file.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::prompt::{awaits_model, is_planned};
use super::session::{
    Ended, Entry, Known, Place, Restored, SessionError, SessionLog, Summarised, Unanswered, push_prompt,
    record,
};
use super::window::{Window, told};
use crate::provider::{Exchange, Message, Prompt, Reply, RequestedCall, Turn};
use haft_core::call::{ToolCall, ToolResult};
use haft_core::sync::Lock;
use haft_core::tool::{Ledger, Session};

/// A conversation.
#[derive(Clone, Debug, Default)]
pub struct History {
    messages: Vec<Message>,
    /// A turn whose calls are running, or were running when a run was dropped.
    open: Option<Arc<OpenTurn>>,
    log: Option<SessionLog>,
    /// The part of the conversation that is sent to the model.
    window: Window,
}

/// A turn whose calls are running.
#[derive(Debug)]
pub(super) struct OpenTurn {
    reply: Reply,
    calls: Lock<Vec<Known>>,
    log: Option<SessionLog>,
    /// The index that the turn will have among the messages.
    message: usize,
}

impl History {
    /// Begins a conversation with `prompt`, saved in `log`, which already contains that prompt.
    pub fn logged(log: SessionLog, prompt: impl Into<Prompt>) -> Self {
        let mut messages = Vec::new();
        push_prompt(&mut messages, prompt.into());
        Self { messages, log: Some(log), ..Self::default() }
    }

    /// Restores the conversation of a session and continues it in `log`, if given. Answers every call that was
    /// started and has no answer: its outcome is unknown.
    ///
    /// # Errors
    /// The answer cannot be saved in `log`.
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

    /// Returns the messages, oldest first, without a turn whose calls are not all answered.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the log of the session that saves this conversation.
    pub fn log(&self) -> Option<&SessionLog> {
        self.log.as_ref()
    }

    /// Returns whether the model still has to act: on calls to run, on a prompt, or on answers to read.
    pub fn is_unfinished(&self) -> bool {
        self.open.is_some() || awaits_model(&self.messages)
    }

    /// Returns whether the last prompt of the person was given in [plan mode](crate::planned).
    pub fn is_planned(&self) -> bool {
        is_planned(&self.messages)
    }

    /// Adds a prompt.
    ///
    /// # Errors
    /// The session cannot be saved.
    pub fn push_prompt(&mut self, prompt: impl Into<Prompt>) -> Result<(), SessionError> {
        let prompt = prompt.into();
        self.close();
        self.note(|| Entry::Said(prompt.clone()))?;
        push_prompt(&mut self.messages, prompt);
        Ok(())
    }

    /// Adds the prompts in `steering`; returns whether there were any.
    pub(super) fn hear(&mut self, steering: &Steering) -> Result<bool, SessionError> {
        let mut has_heard = false;
        while let Some(prompt) = steering.take() {
            self.push_prompt(prompt)?;
            has_heard = true;
        }
        Ok(has_heard)
    }

    /// Begins a turn of the model. The caller answers its calls and then [closes](Self::close) it.
    pub(super) fn open(&mut self, turn: Turn) -> Result<(), SessionError> {
        self.note(|| Entry::Turn(Box::new(turn.clone())))?;
        let calls = Lock::new(vec![Known::Waiting; turn.reply.calls.len()]);
        let (reply, log, message) = (turn.reply, self.log.clone(), self.messages.len());
        self.open = Some(Arc::new(OpenTurn { reply, calls, log, message }));
        Ok(())
    }

    /// Returns the turn whose calls are to be answered.
    pub(super) fn opened(&self) -> Option<Arc<OpenTurn>> {
        self.open.clone()
    }

    /// Moves the open turn into the conversation, with the answers that it has.
    pub(super) fn close(&mut self) {
        if let Some(open) = self.open.take() {
            let calls = std::mem::take(&mut *open.calls.lock());
            let answers = calls.into_iter().map(Known::answer);
            record(&mut self.messages, Exchange::new(open.reply.clone(), answers));
        }
    }

    /// Returns the window that selects the messages for the model, and all messages.
    pub(super) fn window(&mut self) -> (&mut Window, &[Message]) {
        (&mut self.window, &self.messages)
    }

    /// Returns the messages as the model sees them. `is_kept`: shortened answers are saved in full.
    pub(super) fn visible(&self, is_kept: bool) -> Cow<'_, [Message]> {
        let log = self.log.as_ref().filter(|_| is_kept);
        self.window.visible(&self.messages, &|place, text| log?.keep_answer(place, text))
    }

    /// Replaces the beginning of the conversation by `summary`.
    pub(super) fn sum_up(&mut self, summary: Summarised) -> Result<(), SessionError> {
        self.note(|| Entry::Summarised(summary.clone()))?;
        self.window.summary = Some(summary);
        Ok(())
    }

    pub(super) fn end(&self, ended: impl FnOnce() -> Ended) -> Result<(), SessionError> {
        self.note(|| Entry::Ended(ended()))
    }

    fn note(&self, entry: impl FnOnce() -> Entry) -> Result<(), SessionError> {
        self.log.as_ref().map_or(Ok(()), |log| log.note(entry()))
    }
}

impl OpenTurn {
    pub(super) fn requested(&self) -> &[RequestedCall] {
        &self.reply.calls
    }

    pub(super) fn is_waiting(&self, index: usize) -> bool {
        self.calls.lock().get(index) == Some(&Known::Waiting)
    }

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

    /// Returns whether full answers are saved when a tool returns only a part.
    pub(super) fn keeps_answers(&self) -> bool {
        self.log.as_ref().is_some_and(SessionLog::keeps_answers)
    }

    /// Saves the full answer `whole`, if possible, and appends its location to `result`.
    pub(super) fn keep(&self, index: usize, mut result: ToolResult, whole: Option<String>) -> ToolResult {
        let place = Place { message: self.message, call: index };
        let kept = whole.zip(self.log.as_ref()).and_then(|(whole, log)| log.keep_answer(place, &whole));
        if let Some(kept) = kept {
            result.content = format!("{}\n[haft: {}]", result.content, told(&kept));
        }
        result
    }

    /// Returns `session` with a ledger that records the calls of this turn.
    pub(super) fn session(self: &Arc<Self>, session: &Session) -> Session {
        let (open, outer) = (self.clone(), session.ledger.clone());
        let ledger = Ledger::to(move |call| {
            outer.enter(call)?;
            open.enter(call)
        });
        Session { ledger, ..session.clone() }
    }

    /// Records that the tool of a call is about to run.
    fn enter(&self, call: &ToolCall) -> io::Result<()> {
        let has_id = |index: &usize| {
            self.requested().get(*index).is_some_and(|requested| requested.call.id == call.id)
        };
        let waiting = (0..self.calls.lock().len()).filter(|index| self.is_waiting(*index));
        let Some(index) = waiting.into_iter().find(has_id) else { return Ok(()) };
        if let Some(log) = &self.log {
            log.note(Entry::Running { call: call.id.clone() }).map_err(io::Error::other)?;
        }
        self.set(index, Known::Running);
        Ok(())
    }

    /// Answers the calls that were started and whose outcome is unknown.
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

// Prompts that a person gives while the agent works. The model gets them at its next step, after the answers to its
// calls and before its next turn.

/// The queue of prompts that the model has not yet received. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Steering(Arc<Lock<VecDeque<Prompt>>>);

/// The maximum number of queued prompts: more than a user types during one call.
const MAX_WAITING: usize = 64;

impl Steering {
    /// Queues a prompt; returns whether there was room.
    pub fn say(&self, prompt: impl Into<Prompt>) -> bool {
        let mut waiting = self.0.lock();
        let has_room = waiting.len() < MAX_WAITING;
        if has_room {
            waiting.push_back(prompt.into());
        }
        has_room
    }

    /// Removes and returns the next prompt.
    pub fn take(&self) -> Option<Prompt> {
        self.0.lock().pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{Stop, Usage};

    fn prompt(text: &str) -> Turn {
        let reply = Reply { text: text.into(), ..Reply::default() };
        let (usage, wasted, model) = (Usage::default(), Usage::default(), "m".into());
        Turn { reply, stop: Stop::Done, usage, wasted, model }
    }

    /// PL20: consecutive prompts are joined into one message.
    #[test]
    fn what_is_said_again_joins_what_was_said_before() {
        let mut history = History::default();
        history.push_prompt("one").unwrap();
        history.push_prompt("two").unwrap();
        assert_eq!(history.messages(), [Message::User("one\n\ntwo".into())]);
        history.open(prompt("yes")).unwrap();
        history.close();
        history.push_prompt("three").unwrap();
        assert_eq!(history.messages().len(), 3);
    }

    /// PL20: an empty turn is not stored.
    #[test]
    fn an_empty_turn_is_not_kept() {
        let mut history = History::default();
        history.open(prompt("")).unwrap();
        history.close();
        assert_eq!(history.messages(), []);
    }
}
