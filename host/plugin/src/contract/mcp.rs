//! Whole MCP servers in one component (`wasi:http/incoming-handler`, or `wasi:http/handler` of WASI 0.3): its tools are what it lists, and a call is a
//! request to it, within the process. Both eras of the protocol over HTTP are spoken, and answers as JSON or as a stream.
//!
//! Hosts of such components make an instance for every request, and some toolchains' instances serve no second one
//! (those of `StarlingMonkey`). So a call is one request to an instance of its own, unless the server opens a session: then the
//! greeting and the call go to the same instance, which `[plugins.reuse]` keeps together with its session.

mod content;
mod inquiry;
pub(crate) mod manner;
mod message;
mod news;
mod reply;
mod server;
mod session;
mod tool_list;

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use wasmtime::Store;
use wasmtime::component::{Component, InstancePre};

use self::inquiry::{Inquiry, Next};
use self::manner::Manner;
use self::message::Failure;
use self::news::News;
use self::server::{LinkedServer, Server};
use self::session::{Channel, Session};
use crate::component::listing::Listed;
use crate::contract::Request;
use crate::contract::answer::Output;
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use haft_core::sync::Lock;
use haft_core::tool::ToolError;

/// Bytes of a page of tools; all that they say of themselves may have half as many.
const MAX_PAGE: u64 = 8 << 20;

/// Bytes of an answer beside what the limit of results is for: JSON's own, and a picture is longer in base64.
const MAX_OVERHEAD: u64 = 1 << 20;

/// Whether components with these exports serve HTTP. Whether that is MCP shows when they are asked.
pub(crate) fn is_exported(exports: &[&str]) -> bool {
    server::is_exported(exports)
}

/// A linked server.
#[derive(Clone)]
pub(crate) struct McpComponent {
    component: LinkedServer,
    shared: Arc<Shared>,
}

/// What the instances of a component share.
#[derive(Default)]
struct Shared {
    manner: OnceLock<Manner>,
    /// How far the inquiry for its tools is.
    inquiry: Lock<Inquiry>,
}

/// One instance of it.
pub(crate) struct McpGuest {
    guest: Server,
    shared: Arc<Shared>,
    /// Its session between two calls.
    session: Lock<Option<Session>>,
}

impl McpComponent {
    /// A linked component with these exports.
    pub(crate) fn new(linked: InstancePre<GuestState>, exports: &[&str]) -> Result<Self, LoadError> {
        Ok(Self { component: LinkedServer::new(linked, exports)?, shared: Arc::default() })
    }

    /// Takes note of how the server wants to be spoken to, as it was found out before.
    pub(crate) fn note(&self, manner: &Manner) {
        self.shared.manner.get_or_init(|| manner.clone());
    }

    pub(crate) fn component(&self) -> &Component {
        self.component.component()
    }

    pub(crate) async fn instantiate(&self, store: &mut Store<GuestState>) -> wasmtime::Result<McpGuest> {
        let guest = self.component.instantiate(store).await?;
        Ok(McpGuest { guest, shared: self.shared.clone(), session: Lock::default() })
    }
}

impl McpGuest {
    /// Takes the inquiry for the tools one instance further.
    pub(crate) async fn list(
        &self,
        store: &mut Store<GuestState>,
    ) -> wasmtime::Result<Result<Listed, LoadError>> {
        let mut channel = Channel::new(&self.guest, News::none(), MAX_PAGE);
        let inquiry = std::mem::take(&mut *self.shared.inquiry.lock());
        match inquiry.go_on(&mut channel, store).await {
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

    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        store: &mut Store<GuestState>,
        request: &Request,
    ) -> wasmtime::Result<Result<Output, ToolError>> {
        let most = request.result_limit.saturating_mul(2).saturating_add(MAX_OVERHEAD);
        let mut channel = Channel::new(&self.guest, News::of(&store.data().run), most);
        match self.request(&mut channel, store, params(request)).await {
            Ok(result) => Ok(content::answer(&result)),
            Err(failure) => failure.while_calling(),
        }
    }

    /// Whether it may be called again: it has a session, and is not at work.
    pub(crate) fn is_reusable(&self) -> bool {
        self.session.lock().is_some()
    }

    async fn request(
        &self,
        channel: &mut Channel<'_>,
        store: &mut Store<GuestState>,
        params: Map<String, Value>,
    ) -> Result<Value, Failure> {
        let kept = self.session.lock().take();
        let mut session = match (kept, self.shared.manner.get()) {
            (Some(kept), _) => kept,
            (None, Some(manner)) => Session::open(manner, channel, store).await?,
            (None, None) => return Err(Failure::NotMcp("nobody has asked it for its tools".into())),
        };
        let result = session.request(channel, store, "tools/call", params).await;
        if session.may_go_on() && !channel.is_spent() {
            *self.session.lock() = Some(session);
        }
        result
    }
}

/// What `tools/call` is sent with. The call's own id is the token of its progress.
fn params(request: &Request) -> Map<String, Value> {
    let arguments = request.arguments.value().into_owned();
    let meta = json!({ "progressToken": request.id });
    [("name", request.tool.as_str().into()), ("arguments", arguments), ("_meta", meta)]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}
