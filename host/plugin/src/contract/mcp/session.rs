//! Requests to one instance of a server, in its protocol: their headers, and `initialize` if it must be first.

use std::ops::ControlFlow;

use serde_json::{Map, Value, json};
use wasmtime::Store;

use super::News;
use super::message::{self, Failure, Message, shown};
use super::server::{GREETING, Manner, STATELESS, Server, Sessions};
use crate::failure::TooLong;
use crate::instance::state::GuestState;
use crate::wasi::http::incoming::{AfterAnswer, Head, Post, ReadAnswer};
use haft_core::net::{Frames, Framing};

/// Maximum number of characters of a version, which is a date.
const MAX_VERSION: usize = 32;

/// The channel for requests to one instance.
pub(super) struct Channel<'a> {
    guest: &'a Server,
    news: News,
    /// Bytes of a message.
    most: u64,
    is_spent: bool,
}

/// Requests that belong together.
pub(super) struct Session {
    manner: Manner,
    /// The server's id of the session.
    id: Option<String>,
    /// The id of the last request.
    last: u64,
}

impl<'a> Channel<'a> {
    pub(super) fn new(guest: &'a Server, news: News, most: u64) -> Self {
        Self { guest, news, most, is_spent: false }
    }

    /// Returns whether the instance cannot be asked again.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent
    }
}

impl Session {
    /// Returns a session that has sent no request yet.
    pub(super) fn new(manner: Manner) -> Self {
        Self { manner, id: None, last: 0 }
    }

    /// Returns a session that is ready for requests.
    pub(super) async fn open(
        manner: &Manner,
        channel: &mut Channel<'_>,
        store: &mut Store<GuestState>,
    ) -> Result<Self, Failure> {
        let mut session = Self::new(manner.clone());
        if manner.sessions == Sessions::Greeted {
            session.greet(channel, store).await?;
            session.confirm(channel, store).await?;
        }
        Ok(session)
    }

    pub(super) fn manner(&self) -> &Manner {
        &self.manner
    }

    /// Returns whether the server has opened a session.
    pub(super) fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// Returns whether the instance may get more than one request.
    pub(super) fn may_go_on(&self) -> bool {
        self.manner.sessions == Sessions::Greeted
    }

    /// Sends the greeting, and takes note of its answer.
    pub(super) async fn greet(
        &mut self,
        channel: &mut Channel<'_>,
        store: &mut Store<GuestState>,
    ) -> Result<(), Failure> {
        let params =
            [("protocolVersion", GREETING.into()), ("capabilities", json!({})), ("clientInfo", client())];
        let params = params.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let greeted = self.request(channel, store, "initialize", params).await?;
        let version = greeted.get("protocolVersion").and_then(Value::as_str);
        let is_version =
            |text: &&str| text.len() <= MAX_VERSION && text.bytes().all(|byte| byte.is_ascii_graphic());
        let version = version.filter(is_version);
        let version = version.ok_or_else(|| Failure::wrong("initialize", "names no `protocolVersion`"))?;
        version.clone_into(&mut self.manner.version);
        let offered = greeted.get("capabilities").and_then(Value::as_object).cloned().unwrap_or_default();
        if offered.contains_key("tools") {
            return Ok(());
        }
        let names: Vec<&str> = offered.keys().map(String::as_str).collect();
        Err(Failure::NoTools(shown(&names.join(", "))))
    }

    /// Notifies the server that its answer to `initialize` has arrived.
    pub(super) async fn confirm(
        &mut self,
        channel: &mut Channel<'_>,
        store: &mut Store<GuestState>,
    ) -> Result<(), Failure> {
        self.send(channel, store, ("notifications/initialized", None), Map::new()).await.map(|_| ())
    }

    /// Sends a request, and waits for its result.
    pub(super) async fn request(
        &mut self,
        channel: &mut Channel<'_>,
        store: &mut Store<GuestState>,
        method: &'static str,
        params: Map<String, Value>,
    ) -> Result<Value, Failure> {
        self.last += 1;
        self.send(channel, store, (method, Some(self.last)), params).await
    }

    async fn send(
        &mut self,
        channel: &mut Channel<'_>,
        store: &mut Store<GuestState>,
        (method, id): (&'static str, Option<u64>),
        params: Map<String, Value>,
    ) -> Result<Value, Failure> {
        if channel.is_spent {
            let why = "continued after the complete answer, so no further request is possible";
            return Err(Failure::NotMcp(format!("its answer before `{method}` {why}")));
        }
        let post = self.post(method, id, params);
        let mut reply = Reply::new(method, id, (&mut channel.news, channel.most));
        // Until the instance has returned, it must not get another request.
        channel.is_spent = true;
        let after = channel.guest.exchange(store, post, &mut reply).await.map_err(Failure::Ended)?;
        channel.is_spent = after == AfterAnswer::Spent;
        if method == "initialize" {
            self.id = reply.session();
        }
        if id.is_some() { reply.outcome() } else { Ok(Value::Null) }
    }

    fn post(&self, method: &'static str, id: Option<u64>, mut params: Map<String, Value>) -> Post {
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("accept", "application/json, text/event-stream".to_owned()),
        ];
        if method != "initialize" {
            headers.push(("mcp-protocol-version", self.manner.version.clone()));
        }
        headers.extend(self.id.clone().map(|id| ("mcp-session-id", id)));
        if self.manner.sessions == Sessions::Stateless {
            headers.push(("mcp-method", method.to_owned()));
            let name = params.get("name").and_then(Value::as_str);
            headers.extend(name.map(|name| ("mcp-name", name.to_owned())));
            add_meta(&mut params);
        }
        let body = match id {
            Some(id) => message::request(id, method, &params),
            None => message::notification(method),
        };
        Post { path: self.manner.path.clone(), headers, body }
    }
}

/// Adds the client's metadata that each request of the stateless protocol contains.
fn add_meta(params: &mut Map<String, Value>) {
    let meta = params.entry("_meta").or_insert_with(|| json!({}));
    let Some(meta) = meta.as_object_mut() else { return };
    let about =
        [("protocolVersion", STATELESS.into()), ("clientInfo", client()), ("clientCapabilities", json!({}))];
    for (name, value) in about {
        meta.insert(format!("io.modelcontextprotocol/{name}"), value);
    }
}

fn client() -> Value {
    json!({ "name": "haft", "version": env!("CARGO_PKG_VERSION") })
}

// Reads the answer to one request: a JSON message, or a stream of events that ends with it. Stores at most one message.

/// Maximum number of bytes read of an invalid answer.
const MAX_REFUSAL: u64 = 64 << 10;

/// Maximum number of characters of a session's id; usual ids have 36.
const MAX_SESSION: usize = 1000;

/// The answer to a request, as received so far.
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

/// The form of the answer.
enum Form {
    Whole(Vec<u8>),
    Events(Frames),
}

impl<'a> Reply<'a> {
    /// Returns the reply to a request. A message may have at most `most` bytes.
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

    /// Returns the session that the server opened.
    pub(super) fn session(&mut self) -> Option<String> {
        self.session.take()
    }

    pub(super) fn outcome(self) -> Result<Value, Failure> {
        let is_success = (200..300).contains(&self.status);
        match self.outcome {
            Some(outcome) => outcome,
            None if !is_success || self.media_type.is_empty() => {
                Err(Failure::wrong(self.method, &format!("is {}", self.status_line)))
            }
            None => {
                let (line, media_type) = (&self.status_line, shown(&self.media_type));
                Err(Failure::wrong(self.method, &format!("is {line} with `{media_type}` and no message")))
            }
        }
    }

    fn too_long(&mut self) -> ControlFlow<()> {
        self.outcome = Some(Err(Failure::Ended(TooLong(self.most).into())));
        ControlFlow::Break(())
    }

    /// Reads a message or, as older versions permit, a list of messages.
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
            // A server that sends `ping` continues without an answer.
            Message::Request { method } if method != "ping" => {
                let why =
                    format!("requests `{}`, but a plugin cannot send requests during a call", shown(&method));
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
        // A message before an oversized one may be the answer.
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
        // The first message that ends the request is the answer.
        let _ = frames.iter().filter(|frame| !frame.is_empty()).try_for_each(|frame| self.message(frame));
    }
}
