//! Reads the answer to one request: a JSON message, or a stream of events that ends with it. It never keeps more than one
//! message.

use std::ops::ControlFlow;

use serde_json::Value;

use super::message::{Failure, Message, shown};
use super::news::News;
use crate::failure::TooLong;
use crate::wasi::http::incoming::{Head, ReadAnswer};
use haft_core::net::{Frames, Framing};

/// Bytes that are read of an answer that is none.
const MAX_REFUSAL: u64 = 64 << 10;

/// Characters of a session's id; the usual ones have 36.
const MAX_SESSION: usize = 1000;

/// The answer to a request, as far as it is there.
pub(super) struct Reply<'a> {
    method: &'static str,
    /// The request's; `None` for a notification, which has no answer.
    id: Option<u64>,
    news: &'a mut News,
    most: u64,
    form: Form,
    status: u16,
    status_line: String,
    media_type: String,
    session: Option<String>,
    outcome: Option<Result<Value, Failure>>,
}

/// How the answer comes.
enum Form {
    /// Whole.
    Whole(Vec<u8>),
    Events(Frames),
}

impl<'a> Reply<'a> {
    /// The reply to a request, of which one message may have `most` bytes.
    pub(super) fn new(method: &'static str, id: Option<u64>, (news, most): (&'a mut News, u64)) -> Self {
        Self {
            method,
            id,
            news,
            most,
            form: Form::Whole(Vec::new()),
            status: 0,
            status_line: String::new(),
            media_type: String::new(),
            session: None,
            outcome: None,
        }
    }

    /// The session that the server opened.
    pub(super) fn session(&mut self) -> Option<String> {
        self.session.take()
    }

    /// The result.
    pub(super) fn outcome(self) -> Result<Value, Failure> {
        let is_success = (200..300).contains(&self.status);
        match self.outcome {
            Some(outcome) => outcome,
            None if !is_success || self.media_type.is_empty() => {
                Err(Failure::wrong(self.method, &format!("is {}", self.status_line)))
            }
            None => {
                let (line, media_type) = (&self.status_line, shown(&self.media_type));
                Err(Failure::wrong(
                    self.method,
                    &format!("is {line} with `{media_type}` and no message for it"),
                ))
            }
        }
    }

    fn too_long(&mut self) -> ControlFlow<()> {
        self.outcome = Some(Err(Failure::Ended(TooLong(self.most).into())));
        ControlFlow::Break(())
    }

    /// Takes in what may be a message or, as older versions allow, a list of them.
    fn message(&mut self, text: &[u8]) -> ControlFlow<()> {
        match haft_core::json::read(text) {
            Ok(Value::Array(messages)) => messages.into_iter().try_for_each(|one| self.one(one)),
            Ok(message) => self.one(message),
            Err(error) => {
                let why = format!("is not JSON: {}", shown(&error.to_string()));
                self.outcome = Some(Err(Failure::wrong(self.method, &why)));
                ControlFlow::Break(())
            }
        }
    }

    fn one(&mut self, message: Value) -> ControlFlow<()> {
        let Some(id) = self.id else { return ControlFlow::Continue(()) };
        match Message::read(message, id) {
            Message::Answer(answer) => self.outcome = Some(answer),
            Message::Notification { method, params } => self.news.tell(&method, &params),
            // Whoever asks whether somebody is there goes on without an answer.
            Message::Request { method } if method != "ping" => {
                let why = format!(
                    "asks for `{}`, and nothing answers a plugin in the middle of a call",
                    shown(&method)
                );
                self.outcome = Some(Err(Failure::wrong(self.method, &why)));
            }
            Message::Request { .. } | Message::Other => {}
        }
        if self.outcome.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl ReadAnswer for Reply<'_> {
    fn head(&mut self, head: &Head) -> ControlFlow<()> {
        (self.status, self.status_line) = (head.status(), head.status_line());
        self.media_type = head.media_type();
        let session = head.header("mcp-session-id").filter(|id| id.len() <= MAX_SESSION);
        self.session = session.map(str::to_owned);
        if self.media_type == "text/event-stream" {
            let most = usize::try_from(self.most).unwrap_or(usize::MAX);
            self.form = Form::Events(Frames::new(Framing::Events, most));
        } else if !matches!(&*self.media_type, "application/json" | "") || !(200..300).contains(&self.status)
        {
            self.most = self.most.min(MAX_REFUSAL);
        }
        ControlFlow::Continue(())
    }

    fn piece(&mut self, piece: &[u8]) -> ControlFlow<()> {
        if self.id.is_none() {
            return ControlFlow::Continue(());
        }
        let mut frames = Vec::new();
        let cut = match &mut self.form {
            Form::Whole(whole) if (whole.len() + piece.len()) as u64 > self.most => Err(()),
            Form::Whole(whole) => {
                whole.extend_from_slice(piece);
                Ok(())
            }
            Form::Events(events) => events.push(piece, &mut frames).map_err(|_| ()),
        };
        // What came before a message that is too long may be the answer.
        frames.iter().filter(|frame| !frame.is_empty()).try_for_each(|frame| self.message(frame))?;
        if cut.is_err() { self.too_long() } else { ControlFlow::Continue(()) }
    }

    fn end(&mut self) {
        let mut frames = Vec::new();
        match &mut self.form {
            Form::Events(events) => events.finish(&mut frames),
            Form::Whole(whole) if matches!(&*self.media_type, "application/json" | "") => {
                frames.push(std::mem::take(whole));
            }
            Form::Whole(_) => {}
        }
        // The first that ends it is the answer.
        let _ = frames.iter().filter(|frame| !frame.is_empty()).try_for_each(|frame| self.message(frame));
    }
}
