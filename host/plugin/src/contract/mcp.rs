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

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use wasmtime::Store;

use self::inquiry::{Inquiry, Next};
use self::manner::Manner;
use self::message::Failure;
use self::news::News;
use self::server::{LinkedServer, Server};
use self::session::{Channel, Session};
use crate::call::Call;
use crate::component::listing::Listed;
use crate::contract::Contract;
use crate::contract::guest::{Answer, Guest, Kind, Linked, MakeGuest};
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use haft_core::sync::Lock;

/// Bytes of a page of tools; all that they say of themselves may have half as many.
const MAX_PAGE: u64 = 8 << 20;

/// Bytes of an answer beside what the limit of results is for: JSON's own, and a picture is longer in base64.
const MAX_OVERHEAD: u64 = 1 << 20;

/// The contract. Whether what a component serves is MCP shows when it is asked for its tools.
pub(crate) const KIND: Kind = Kind {
    contract: Contract::Mcp,
    is_exported: |exports| Ok(server::is_exported(exports)),
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

/// What the instances of a component share.
struct Shared {
    manner: OnceLock<Manner>,
    /// How far the inquiry for its tools is.
    inquiry: Lock<Inquiry>,
}

/// One instance of it.
struct McpGuest {
    guest: Server,
    shared: Arc<Shared>,
    /// Its session between two calls.
    session: Lock<Option<Session>>,
}

#[async_trait]
impl Guest for McpGuest {
    /// Takes the inquiry for the tools one instance further.
    async fn list(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Result<Listed, LoadError>> {
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

    async fn call(&self, store: &mut Store<GuestState>, call: &Call) -> Answer {
        let most = call.limits.result.saturating_mul(2).saturating_add(MAX_OVERHEAD);
        let mut channel = Channel::new(&self.guest, News::of(call), most);
        match self.request(&mut channel, store, params(call)).await {
            Ok(result) => Ok(content::answer(&result)),
            Err(failure) => failure.while_calling(),
        }
    }

    /// Where it has a session, and is not at work.
    fn is_reusable(&self) -> bool {
        self.session.lock().is_some()
    }
}

impl McpGuest {
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
fn params(call: &Call) -> Map<String, Value> {
    let arguments = call.arguments.value().into_owned();
    let meta = json!({ "progressToken": call.id });
    [("name", call.tool.as_str().into()), ("arguments", arguments), ("_meta", meta)]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}
