//! Whole MCP servers in one component (`wasi:http/incoming-handler`): its tools are what it lists, and a call is a
//! request to it, within the process. Both eras of the protocol over HTTP are spoken, and answers as JSON or as a stream.
//!
//! An instance that serves one call is greeted, called and dropped: whatever a server keeps for a session ends with the
//! call. Where `[plugins.reuse]` lets an instance serve several calls, its session lasts as long as the instance.

mod content;
mod message;
mod news;
mod reply;
mod session;
mod tool_list;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::{Map, Value, json};
use wasmtime::Store;
use wasmtime::component::{Component, InstancePre};
use wasmtime_wasi_http::p2::bindings::{Proxy, ProxyPre};

use self::message::Failure;
use self::news::News;
use self::session::{Channel, Session};
use crate::component::listing::ListedTool;
use crate::contract::Request;
use crate::contract::answer::Output;
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use haft_core::tool::ToolError;

/// The interface that makes a component a server; the rest of its version follows.
const INTERFACE: &str = "wasi:http/incoming-handler@0.2.";

/// Pages of a list of tools.
const MAX_PAGES: usize = 100;

/// Bytes of a page; all that tools say of themselves may have half as many.
const MAX_PAGE: u64 = 8 << 20;

/// Bytes of an answer beside what the limit of results is for: JSON's own, and a picture is longer in base64.
const MAX_OVERHEAD: u64 = 1 << 20;

/// Whether components with these exports serve HTTP. Whether that is MCP shows when they are asked.
pub(crate) fn is_exported(exports: &[&str]) -> bool {
    exports.iter().any(|name| name.starts_with(INTERFACE))
}

/// A linked server.
#[derive(Clone)]
pub(crate) struct McpComponent {
    component: ProxyPre<GuestState>,
    /// Where its first instance was found to speak MCP.
    path: Arc<OnceLock<&'static str>>,
}

/// One instance of it.
pub(crate) struct McpGuest {
    guest: Proxy,
    path: Arc<OnceLock<&'static str>>,
    state: Mutex<SessionState>,
}

/// How far an instance is.
enum SessionState {
    New,
    Open(Session),
    /// It cannot be asked again.
    Spent,
}

impl McpComponent {
    pub(crate) fn new(linked: InstancePre<GuestState>) -> Result<Self, LoadError> {
        let component = ProxyPre::new(linked).map_err(|error| LoadError::link(&error))?;
        Ok(Self { component, path: Arc::default() })
    }

    pub(crate) fn component(&self) -> &Component {
        self.component.instance_pre().component()
    }

    pub(crate) async fn instantiate(&self, store: &mut Store<GuestState>) -> wasmtime::Result<McpGuest> {
        let guest = self.component.instantiate_async(store).await?;
        Ok(McpGuest { guest, path: self.path.clone(), state: Mutex::new(SessionState::New) })
    }
}

impl McpGuest {
    /// Asks for the tools, page by page.
    pub(crate) async fn list(
        &self,
        store: &mut Store<GuestState>,
    ) -> wasmtime::Result<Result<Vec<ListedTool>, LoadError>> {
        let mut channel = Channel::new(&self.guest, News::none(), MAX_PAGE);
        let mut session = match self.session(&mut channel, store).await {
            Ok(session) => session,
            Err(failure) => return failure.while_listing(),
        };
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let params = cursor.map(|cursor: String| ("cursor".to_owned(), cursor.into()));
            let listed =
                session.request(&mut channel, store, "tools/list", params.into_iter().collect()).await;
            let page = match listed {
                Ok(page) => page,
                Err(failure) => return failure.while_listing(),
            };
            match tool_list::page(&page) {
                Some(listed) => tools.extend(listed),
                None => return Failure::NotMcp("its list of tools holds no `tools`".into()).while_listing(),
            }
            cursor = page
                .get("nextCursor")
                .and_then(Value::as_str)
                .map(str::to_owned)
                .filter(|next| !next.is_empty());
            if cursor.is_none() {
                return Ok(Ok(tools));
            }
        }
        Ok(Err(LoadError::Listing(format!("its list of tools has more than {MAX_PAGES} pages"))))
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        store: &mut Store<GuestState>,
        request: &Request,
    ) -> wasmtime::Result<Result<Output, ToolError>> {
        let most = request.result_limit.saturating_mul(2).saturating_add(MAX_OVERHEAD);
        let mut channel = Channel::new(&self.guest, News::of(&store.data().run), most);
        let called = match self.session(&mut channel, store).await {
            Ok(mut session) => {
                let called = session.request(&mut channel, store, "tools/call", params(request)).await;
                let state =
                    if channel.is_spent() { SessionState::Spent } else { SessionState::Open(session) };
                *self.state() = state;
                called
            }
            Err(failure) => Err(failure),
        };
        match called {
            Ok(result) => Ok(content::answer(&result)),
            Err(failure) => failure.while_calling(),
        }
    }

    /// Whether it may be called again.
    pub(crate) fn is_reusable(&self) -> bool {
        matches!(*self.state(), SessionState::Open(_))
    }

    /// The session of the instance: the one it has, or a new one. It counts as spent until the session is put back.
    async fn session(
        &self,
        channel: &mut Channel<'_>,
        store: &mut Store<GuestState>,
    ) -> Result<Session, Failure> {
        let state = std::mem::replace(&mut *self.state(), SessionState::Spent);
        match state {
            SessionState::Open(session) => Ok(session),
            SessionState::New => Session::open(channel, store, &self.path).await,
            SessionState::Spent => Err(Failure::NotMcp("it had not ended an earlier answer".into())),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
