//! Requests to one instance of a server, in its protocol: their headers, and `initialize` if it must be first.

use serde_json::{Map, Value, json};
use wasmtime::Store;

use super::News;
use super::exchange::{Post, Reply, Server};
use super::message::{Failure, GREETING, Manner, STATELESS, Sessions, shown};
use crate::instance::state::GuestState;

/// Maximum number of characters of a version, which is a date.
const MAX_VERSION: usize = 32;

pub(super) struct Channel<'a> {
    guest: &'a Server,
    store: &'a mut Store<GuestState>,
    news: News,
    most: u64,
    /// Whether the instance cannot be asked again.
    pub(super) is_spent: bool,
}

/// Requests that belong together.
pub(super) struct Session {
    pub(super) manner: Manner,
    /// The id of the session, if the server has opened one.
    pub(super) id: Option<String>,
    last: u64,
}

impl<'a> Channel<'a> {
    pub(super) fn new(guest: &'a Server, store: &'a mut Store<GuestState>, news: News, most: u64) -> Self {
        Self { guest, store, news, most, is_spent: false }
    }
}

impl Session {
    /// Returns a session that has sent no request yet.
    pub(super) fn new(manner: Manner) -> Self {
        Self { manner, id: None, last: 0 }
    }

    /// Returns a session that is ready for requests.
    pub(super) async fn open(manner: &Manner, channel: &mut Channel<'_>) -> Result<Self, Failure> {
        let mut session = Self::new(manner.clone());
        if manner.sessions == Sessions::Greeted {
            session.greet(channel).await?;
            session.confirm(channel).await?;
        }
        Ok(session)
    }

    /// Sends the greeting, and takes note of its answer.
    pub(super) async fn greet(&mut self, channel: &mut Channel<'_>) -> Result<(), Failure> {
        let params =
            [("protocolVersion", GREETING.into()), ("capabilities", json!({})), ("clientInfo", client())];
        let params = params.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let greeted = self.request(channel, "initialize", params).await?;
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
    pub(super) async fn confirm(&mut self, channel: &mut Channel<'_>) -> Result<(), Failure> {
        self.send(channel, ("notifications/initialized", None), Map::new()).await.map(|_| ())
    }

    pub(super) async fn request(
        &mut self,
        channel: &mut Channel<'_>,
        method: &'static str,
        params: Map<String, Value>,
    ) -> Result<Value, Failure> {
        self.last += 1;
        self.send(channel, (method, Some(self.last)), params).await
    }

    async fn send(
        &mut self,
        channel: &mut Channel<'_>,
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
        let has_returned =
            channel.guest.exchange(channel.store, post, &mut reply).await.map_err(Failure::Ended)?;
        channel.is_spent = !has_returned;
        if method == "initialize" {
            self.id = reply.session.take();
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
            Some(id) => json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }),
            None => json!({ "jsonrpc": "2.0", "method": method }),
        };
        Post { path: self.manner.path.clone(), headers, body: body.to_string() }
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
