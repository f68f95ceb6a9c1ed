//! Requests to one instance of a server, by its manner: what they carry, and the greeting where it comes first.

use serde_json::{Map, Value, json};
use wasmtime::Store;

use super::manner::{GREETING, Manner, STATELESS, Sessions};
use super::message::{self, Failure, shown};
use super::news::News;
use super::reply::Reply;
use super::server::Server;
use crate::instance::state::GuestState;
use crate::wasi::http::incoming::{AfterAnswer, Post};

/// Characters of a version; they are dates.
const MAX_VERSION: usize = 32;

/// What requests to one instance go through.
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
    /// What the server calls the session.
    id: Option<String>,
    /// The id of the last request.
    last: u64,
}

impl<'a> Channel<'a> {
    pub(super) fn new(guest: &'a Server, news: News, most: u64) -> Self {
        Self { guest, news, most, is_spent: false }
    }

    /// Whether the instance cannot be asked again.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent
    }
}

impl Session {
    /// A session before its first request.
    pub(super) fn new(manner: Manner) -> Self {
        Self { manner, id: None, last: 0 }
    }

    /// A session that is ready for requests.
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

    /// Whether the server has opened a session.
    pub(super) fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// Whether the instance is made for more than one request.
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

    /// Tells the server that its answer to the greeting has arrived.
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
            let why = "went on after the answer was complete, so that nothing more can be asked";
            return Err(Failure::NotMcp(format!("what it answered before `{method}` {why}")));
        }
        let post = self.post(method, id, params);
        let mut reply = Reply::new(method, id, (&mut channel.news, channel.most));
        // Until it is known to have returned, it is not to be asked again.
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

/// What each request of the stateless protocol says of its client.
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
