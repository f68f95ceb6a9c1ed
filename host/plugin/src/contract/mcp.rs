//! MCP servers in one component (`wasi:http/incoming-handler`, or `wasi:http/handler` of WASI 0.3): haft lists the
//! tools of the server, and a call is a request to it, within the process. Both eras of MCP over HTTP are
//! supported, and answers as JSON or as a stream.
//!
//! Hosts of such components create an instance for every request, and the instances of some toolchains serve no
//! second request (those of `StarlingMonkey`). A call is therefore one request to a separate instance, unless the
//! server opens a session: then one instance gets `initialize` and the call, and `[plugins.reuse]` stores the
//! instance with its session.

mod exchange;
mod inquiry;
pub(crate) mod message;
mod session;

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use wasmtime::Store;

use self::exchange::{LinkedServer, Server};
use self::inquiry::{Inquiry, Next};
use self::message::{Failure, Manner, Sessions, shown};
use self::session::{Channel, Session};
use crate::call::Call;
use crate::component::listing::Listed;
use crate::contract::Contract;
use crate::contract::guest::{Answer, Guest, Kind, Linked, MakeGuest, Output, Piece, Structured};
use crate::contract::haft_host::{EVENT_TARGET, MAX_MESSAGE, MAX_MESSAGES};
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use haft_core::call::Attachment;
use haft_core::event::{Event, Events};
use haft_core::sync::Lock;
use haft_core::tool::ToolError;

/// Maximum size in bytes of a page of tools; all definitions may have half as many.
const MAX_PAGE: u64 = 8 << 20;

/// Maximum size in bytes of an answer beyond the result limit: JSON syntax, and base64 of pictures.
const MAX_OVERHEAD: u64 = 1 << 20;

/// JSON-RPC: the arguments are wrong.
const INVALID_PARAMS: i64 = -32602;

/// The contract. A request for its tools shows whether a component serves MCP.
pub(crate) const KIND: Kind = Kind {
    contract: Contract::Mcp,
    is_exported: |exports| Ok(exchange::is_exported(exports)),
    link,
    listing: None,
    may_offer: false,
    result_cost: 0,
};

fn link(Linked { pre, exports, listing }: &Linked<'_>) -> Result<MakeGuest, LoadError> {
    let manner = listing.and_then(|listing| listing.manner.clone());
    let shared = Shared { manner: manner.map(OnceLock::from).unwrap_or_default(), inquiry: Lock::default() };
    let (server, shared) = (LinkedServer::new(pre, exports)?, Arc::new(shared));
    Ok(Arc::new(move |store, instance| {
        let guest = server.load(store, &instance)?;
        Ok(Box::new(McpGuest { guest, shared: shared.clone(), session: Lock::default() }))
    }))
}

struct Shared {
    manner: OnceLock<Manner>,
    inquiry: Lock<Inquiry>,
}

struct McpGuest {
    guest: Server,
    shared: Arc<Shared>,
    session: Lock<Option<Session>>,
}

#[async_trait]
impl Guest for McpGuest {
    async fn list(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Result<Listed, LoadError>> {
        let news = News::new(Arc::from(""), String::new(), Events::none());
        let mut channel = Channel::new(&self.guest, store, news, MAX_PAGE);
        let inquiry = std::mem::take(&mut *self.shared.inquiry.lock());
        match inquiry.go_on(&mut channel).await {
            Ok(Next::Again(inquiry)) => {
                *self.shared.inquiry.lock() = inquiry;
                Ok(Ok(Listed::Again))
            }
            Ok(Next::Listed(tools, manner)) => {
                self.shared.manner.get_or_init(|| manner.clone());
                Ok(Ok(Listed::Tools { tools, manner: Some(manner) }))
            }
            Err(failure) => failure.while_listing(),
        }
    }

    async fn call(&self, store: &mut Store<GuestState>, call: &Call) -> Answer {
        let most = call.limits.result.saturating_mul(2).saturating_add(MAX_OVERHEAD);
        let news = News::new(call.plugin.clone(), call.id.clone(), call.events.clone());
        let mut channel = Channel::new(&self.guest, store, news, most);
        match self.request(&mut channel, params(call)).await {
            Ok(result) => Ok(answer(&result)),
            Err(failure) => failure.while_calling(),
        }
    }

    /// Returns whether the instance has a session, and is not running.
    fn is_reusable(&self) -> bool {
        self.session.lock().is_some()
    }
}

impl McpGuest {
    async fn request(&self, channel: &mut Channel<'_>, params: Map<String, Value>) -> Result<Value, Failure> {
        let kept = self.session.lock().take();
        let mut session = match (kept, self.shared.manner.get()) {
            (Some(kept), _) => kept,
            (None, Some(manner)) => Session::open(manner, channel).await?,
            (None, None) => return Err(Failure::NotMcp("its tools have not been listed".into())),
        };
        let result = session.request(channel, "tools/call", params).await;
        // Other servers get one request to an instance.
        if session.manner.sessions == Sessions::Greeted && !channel.is_spent {
            *self.session.lock() = Some(session);
        }
        result
    }
}

/// Returns the parameters of `tools/call`. The call's own id is its progress token.
fn params(call: &Call) -> Map<String, Value> {
    let arguments = call.arguments.value().into_owned();
    let meta = json!({ "progressToken": call.id });
    [("name", call.tool.as_str().into()), ("arguments", arguments), ("_meta", meta)]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}

impl Failure {
    fn while_listing(self) -> wasmtime::Result<Result<Listed, LoadError>> {
        match self {
            Self::Ended(error) => Err(error),
            Self::Refused { message, .. } => {
                Ok(Err(LoadError::Listing(format!("the server refuses it: {}", shown(&message)))))
            }
            Self::NotMcp(why) => Ok(Err(LoadError::NotMcp(why))),
            Self::NoTools(others) => Ok(Err(LoadError::Listing(no_tools(&others)))),
        }
    }

    /// Ends a call: the server's error is the tool's, any other is haft's.
    fn while_calling(self) -> wasmtime::Result<Result<Output, ToolError>> {
        match self {
            Self::Ended(error) => Err(error),
            Self::Refused { code: INVALID_PARAMS, message } => Ok(Err(ToolError::InvalidArguments(message))),
            Self::Refused { message, .. } => Ok(Err(ToolError::ExecutionFailed(message))),
            Self::NotMcp(why) => Err(wasmtime::Error::msg(why)),
            Self::NoTools(others) => Err(wasmtime::Error::msg(no_tools(&others))),
        }
    }
}

fn no_tools(others: &str) -> String {
    if others.is_empty() { "it has none".into() } else { format!("it has none, only: {others}") }
}

// The content of a result: text unmodified, binary data as attachments, and a line for everything else. A result
// marked as an error is the tool's error.

fn answer(result: &Value) -> Result<Output, ToolError> {
    if let Some(kind) = unfinished(result) {
        let why = format!("it answered with `{kind}`; a plugin's call must end with its answer");
        return Err(ToolError::ExecutionFailed(why));
    }
    let blocks = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut pieces: Vec<Piece> = blocks.iter().flat_map(block).collect();
    let data = result.get("structuredContent").filter(|data| !data.is_null());
    if let Some(data) = data.filter(|data| !is_shown(&pieces, data)) {
        pieces.push(Piece::Text(data.to_string()));
    }
    if result.get("isError").and_then(Value::as_bool) == Some(true) {
        return Err(ToolError::ExecutionFailed(texts(pieces)));
    }
    let structured = data.filter(|data| data.is_object()).map(|data| Structured::Text(data.to_string()));
    Ok(Output { pieces, structured })
}

/// Returns the kind of a result that is not an answer yet: a question, or a task.
fn unfinished(result: &Value) -> Option<String> {
    let kind = result.get("resultType").and_then(Value::as_str).filter(|kind| *kind != "complete");
    kind.map(shown)
}

fn is_shown(pieces: &[Piece], data: &Value) -> bool {
    pieces.iter().any(|piece| match piece {
        Piece::Text(text) => serde_json::from_str::<Value>(text).is_ok_and(|shown| shown == *data),
        Piece::Binary(_) => false,
    })
}

fn texts(pieces: Vec<Piece>) -> String {
    let texts = pieces.into_iter().map(|piece| match piece {
        Piece::Text(text) => text,
        Piece::Binary(attachment) => attachment.mention(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn block(block: &Value) -> Vec<Piece> {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    match text("type") {
        Some("text") => vec![Piece::Text(text("text").unwrap_or_default().to_owned())],
        Some("image" | "audio") => vec![binary(block, "data")],
        Some("resource_link") => vec![Piece::Text(named(block))],
        Some("resource") => resource(block.get("resource").unwrap_or(&Value::Null)),
        kind => {
            let kind = shown(kind.unwrap_or("unknown"));
            vec![Piece::Text(format!("[content of the unknown type `{kind}`]"))]
        }
    }
}

fn resource(resource: &Value) -> Vec<Piece> {
    let name = Piece::Text(named(resource));
    match resource.get("text").and_then(Value::as_str) {
        Some(text) => vec![name, Piece::Text(text.to_owned())],
        None if resource.get("blob").is_some() => vec![name, binary(resource, "blob")],
        None => vec![name],
    }
}

fn binary(block: &Value, key: &str) -> Piece {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    let media_type = shown(text("mimeType").unwrap_or("application/octet-stream"));
    match BASE64_STANDARD.decode(text(key).unwrap_or_default()) {
        Ok(data) => Piece::Binary(Attachment::new(media_type, data)),
        Err(_) => Piece::Text(format!("[{media_type}: left out: not valid base64]")),
    }
}

fn named(resource: &Value) -> String {
    let text = |key: &str| resource.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = text("title").or(text("name")).map(|name| format!("{name} ")).unwrap_or_default();
    let uri = text("uri").unwrap_or("without a URI");
    let rest = [text("mimeType"), text("description")].into_iter().flatten();
    shown(&format!(
        "[resource {}]",
        rest.fold(format!("{name}<{uri}>"), |line, more| format!("{line}, {more}"))
    ))
}

struct News {
    plugin: Arc<str>,
    call: String,
    events: Events,
    told: usize,
    /// The last progress; messages may overtake each other.
    done: f64,
}

impl News {
    fn new(plugin: Arc<str>, call: String, events: Events) -> Self {
        Self { plugin, call, events, told: 0, done: f64::NEG_INFINITY }
    }

    /// Forwards a notification, if it is one for people.
    fn tell(&mut self, method: &str, params: &Value) {
        self.told += 1;
        if self.told > MAX_MESSAGES {
            return;
        }
        match method {
            "notifications/progress" => self.progress(params),
            "notifications/message" => self.log(params),
            _ => {}
        }
    }

    fn progress(&mut self, params: &Value) {
        let number = |name: &str| params.get(name).and_then(Value::as_f64);
        let is_own = params.get("progressToken").and_then(Value::as_str) == Some(&self.call);
        let Some(done) = number("progress").filter(|done| is_own && *done > self.done) else { return };
        self.done = done;
        let message = text(params.get("message").unwrap_or(&Value::Null));
        let (call, total) = (self.call.clone(), number("total"));
        self.events.emit(|| Event::Progress { call, done, total, message });
    }

    fn log(&self, params: &Value) {
        let (plugin, message) = (&*self.plugin, text(params.get("data").unwrap_or(&Value::Null)));
        if params.get("level").and_then(Value::as_str) == Some("debug") {
            return tracing::debug!(plugin, "{message}");
        }
        tracing::info!(target: EVENT_TARGET, plugin, "{message}");
        let call = self.call.clone();
        self.events.emit(|| Event::Info { call, message });
    }
}

/// Returns a text, or any other value as JSON; cut to [`MAX_MESSAGE`] characters.
fn text(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    text.chars().take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_content_is_told() {
        let result = json!({ "content": [
            { "type": "text", "text": "one" },
            { "type": "image", "mimeType": "image/png", "data": "AP8=" },
            { "type": "audio", "mimeType": "audio/wav", "data": "!" },
            { "type": "resource_link", "uri": "file:///a", "name": "a" },
            { "type": "resource", "resource": { "uri": "x:1", "text": "inside" } },
            { "type": "hologram" },
        ], "structuredContent": { "a": 1 } });
        let output = answer(&result).unwrap_or_else(|error| panic!("{error}"));
        assert!(matches!(&output.structured, Some(Structured::Text(text)) if text == r#"{"a":1}"#));
        assert_eq!(
            texts(output.pieces),
            "one\n[image/png, 2 bytes]\n[audio/wav: left out: not valid base64]\n[resource a \
             <file:///a>]\n[resource <x:1>]\ninside\n[content of the unknown type \
             `hologram`]\n{\"a\":1}"
        );
    }

    #[test]
    fn an_error_is_the_tool_s_and_data_is_shown_once() {
        let failed = json!({ "isError": true, "content": [{ "type": "text", "text": "it broke" }] });
        assert_eq!(answer(&failed).err(), Some(ToolError::ExecutionFailed("it broke".into())));
        let twice = json!({ "content": [{ "type": "text", "text": "{ \"a\": 1 }" }], "structuredContent": { "a": 1 } });
        assert_eq!(answer(&twice).ok().map(|output| output.pieces.len()), Some(1));
        let asks = json!({ "resultType": "input_required", "inputRequests": {} });
        assert!(answer(&asks).err().is_some_and(|error| error.to_string().contains("input_required")));
    }

    #[test]
    fn wrong_arguments_are_told_as_such() {
        let error = |code| Failure::Refused { code, message: "no `a`".into() }.while_calling().unwrap().err();
        assert_eq!(error(INVALID_PARAMS), Some(ToolError::InvalidArguments("no `a`".into())));
        assert_eq!(error(-32601), Some(ToolError::ExecutionFailed("no `a`".into())));
    }
}
