//! A session with one instance of a server: where it listens, which era of the protocol it speaks, and what its requests
//! carry. The greeting (`initialize`) comes first, as most servers know it; one that knows only the stateless protocol
//! (2026-07-28) is spoken to without.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use wasmtime::Store;
use wasmtime_wasi_http::p2::bindings::Proxy;

use super::message::{self, Failure, shown};
use super::news::News;
use super::reply::Reply;
use crate::instance::state::GuestState;
use crate::wasi::http::incoming::{AfterAnswer, Post, exchange};

/// Where servers listen: what the specification's examples use, servers that look at no path, and Cosmonic's template.
const PATHS: &[&str] = &["/mcp", "/", "/v1/mcp"];

/// The newest version with a greeting.
const GREETING: &str = "2025-11-25";

/// The version without.
const STATELESS: &str = "2026-07-28";

/// Characters of a version; they are dates.
const MAX_VERSION: usize = 32;

/// What requests to one instance go through.
pub(super) struct Channel<'a> {
    guest: &'a Proxy,
    news: News,
    /// Bytes of a message.
    most: u64,
    is_spent: bool,
}

/// An open session.
pub(super) struct Session {
    path: &'static str,
    /// The version that both sides speak.
    version: String,
    is_stateless: bool,
    /// What the server calls the session.
    id: Option<String>,
    /// The id of the last request.
    last: u64,
}

/// Why a component is no server at the paths that were tried.
#[derive(Default)]
struct Refusals(Vec<(String, Vec<String>)>);

impl Refusals {
    fn add(&mut self, why: String, path: &str) {
        let path = format!("`{path}`");
        match self.0.iter_mut().find(|(other, _)| *other == why) {
            Some((_, paths)) => paths.push(path),
            None => self.0.push((why, vec![path])),
        }
    }

    fn text(&self) -> String {
        let each = self.0.iter().map(|(why, paths)| format!("{why} at {}", paths.join(", ")));
        each.collect::<Vec<_>>().join("; ")
    }
}

impl<'a> Channel<'a> {
    pub(super) fn new(guest: &'a Proxy, news: News, most: u64) -> Self {
        Self { guest, news, most, is_spent: false }
    }

    /// Whether the instance cannot be asked again.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent
    }
}

impl Session {
    /// Opens a session, where the component is known to listen or wherever it does.
    pub(super) async fn open(
        channel: &mut Channel<'_>,
        store: &mut Store<GuestState>,
        known: &OnceLock<&'static str>,
    ) -> Result<Self, Failure> {
        let paths = known.get().map_or(PATHS, std::slice::from_ref);
        let mut refusals = Refusals::default();
        for path in paths {
            match Self::greet(channel, store, path).await {
                Ok(session) => {
                    known.get_or_init(|| path);
                    return Ok(session);
                }
                Err(Failure::NotMcp(why)) if !channel.is_spent => refusals.add(why, path),
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::NotMcp(refusals.text()))
    }

    async fn greet(
        channel: &mut Channel<'_>,
        store: &mut Store<GuestState>,
        path: &'static str,
    ) -> Result<Self, Failure> {
        let mut session = Self { path, version: GREETING.into(), is_stateless: false, id: None, last: 0 };
        let greeting = json!({
            "protocolVersion": GREETING,
            "capabilities": {},
            "clientInfo": client(),
        });
        let greeting = greeting.as_object().cloned().unwrap_or_default();
        match session.request(channel, store, "initialize", greeting).await {
            Ok(greeted) => session.take(&greeted)?,
            Err(refused @ Failure::Refused { .. }) => {
                // The first refusal says more to people than that of a request which hardly any server knows.
                session.become_stateless();
                return match session.request(channel, store, "server/discover", Map::new()).await {
                    Ok(_) => Ok(session),
                    Err(Failure::Ended(error)) => Err(Failure::Ended(error)),
                    Err(_) => Err(refused),
                };
            }
            Err(failure) => return Err(failure),
        }
        session.send(channel, store, ("notifications/initialized", None), Map::new()).await?;
        Ok(session)
    }

    /// Takes note of what the server answered to the greeting.
    fn take(&mut self, greeted: &Value) -> Result<(), Failure> {
        let version = greeted.get("protocolVersion").and_then(Value::as_str);
        let is_version =
            |text: &&str| text.len() <= MAX_VERSION && text.bytes().all(|byte| byte.is_ascii_graphic());
        let version = version.filter(is_version);
        let version = version.ok_or_else(|| Failure::wrong("initialize", "names no `protocolVersion`"))?;
        version.clone_into(&mut self.version);
        let offered = greeted.get("capabilities").and_then(Value::as_object).cloned().unwrap_or_default();
        if offered.contains_key("tools") {
            return Ok(());
        }
        let names: Vec<&str> = offered.keys().map(String::as_str).collect();
        let message = format!("it has no tools, and offers only: {}", shown(&names.join(", ")));
        Err(Failure::Refused { code: message::METHOD_NOT_FOUND, message })
    }

    fn become_stateless(&mut self) {
        (self.is_stateless, self.version, self.id) = (true, STATELESS.into(), None);
    }

    /// Sends a request, and waits for its result.
    pub(super) async fn request(
        &mut self,
        channel: &mut Channel<'_>,
        store: &mut Store<GuestState>,
        method: &'static str,
        params: Map<String, Value>,
    ) -> Result<Value, Failure> {
        if channel.is_spent {
            let why = "went on after the answer was complete, so that nothing more can be asked";
            return Err(Failure::NotMcp(format!("what it answered before `{method}` {why}")));
        }
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
        let post = self.post(method, id, params);
        let mut reply = Reply::new(method, id, (&mut channel.news, channel.most));
        // Until it is known to have returned, it is not to be asked again.
        channel.is_spent = true;
        let after = exchange(store, channel.guest, post, &mut reply).await.map_err(Failure::Ended)?;
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
            headers.push(("mcp-protocol-version", self.version.clone()));
        }
        headers.extend(self.id.clone().map(|id| ("mcp-session-id", id)));
        if self.is_stateless {
            headers.push(("mcp-method", method.to_owned()));
            let name = params.get("name").and_then(Value::as_str);
            headers.extend(name.map(|name| ("mcp-name", name.to_owned())));
            add_meta(&mut params);
        }
        let body = match id {
            Some(id) => message::request(id, method, params),
            None => message::notification(method),
        };
        Post { path: self.path, headers, body }
    }
}

/// What each request of the stateless protocol says of its client.
fn add_meta(params: &mut Map<String, Value>) {
    let meta = params.entry("_meta").or_insert_with(|| json!({}));
    let Some(meta) = meta.as_object_mut() else { return };
    for (name, value) in
        [("protocolVersion", STATELESS.into()), ("clientInfo", client()), ("clientCapabilities", json!({}))]
    {
        meta.insert(format!("io.modelcontextprotocol/{name}"), value);
    }
}

fn client() -> Value {
    json!({ "name": "haft", "version": env!("CARGO_PKG_VERSION") })
}
