//! Components of the `act:tools` world of other hosts: the component lists its tools, takes arguments in CBOR, and
//! answers in parts, at once or as a stream.
//!
//! Such a component may support *sessions* (`act:sessions`) that outlive a call. Nothing in a plugin of haft outlives a
//! call, so that each call has a session of its own. A bridge, whose tools are known within a session alone, lists none.

mod cbor;
pub(crate) mod consent;
mod content;
pub(crate) mod declared;
pub(crate) mod metadata;
mod session;
mod shapes;
mod stream;
mod text;
mod tool_list;

use std::sync::Arc;

use async_trait::async_trait;
use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, Instance};

use self::session::{Session, Sessions};
use self::shapes::{CallResponse, CallTool, ListTools};
use crate::call::Call;
use crate::component::listing::Listed;
use crate::contract::Contract;
use crate::contract::guest::{Answer, Guest, Kind, Linked, MakeGuest};
use crate::contract::version::exported_version;
use crate::failure::LoadError;
use crate::instance::state::GuestState;

/// The interface that makes a component one of this world; its version follows.
const INTERFACE: &str = "act:tools/tool-provider@";

/// The versions that are spoken here, for people.
const SUPPORTED: &str = "0.1 and 0.2";

/// Why a bridge to other tools cannot be had.
const BRIDGE: &str = "it is a bridge, whose tools are known within a session alone, and a plugin's tools are what it \
                      lists when it is installed";

/// Whether a version is one of [`SUPPORTED`]. 0.2 has its types in an interface of their own; their shapes are the same.
fn is_spoken(version: &str) -> bool {
    version.starts_with("0.1.") || version.starts_with("0.2.")
}

/// The contract.
pub(crate) const KIND: Kind = Kind {
    contract: Contract::Act,
    is_exported: |exports| exported_version(exports, INTERFACE, "act:tools", SUPPORTED, is_spoken),
    link,
    listing: None,
    may_offer: false,
    result_cost: 0,
};

fn link(Linked { pre, exports, .. }: &Linked<'_>) -> Result<MakeGuest, LoadError> {
    let is_provider = |name: &&&str| name.strip_prefix(INTERFACE).is_some_and(is_spoken);
    let interface = exports.iter().find(is_provider).copied().unwrap_or(INTERFACE);
    let missing = |name: &str| LoadError::Link(format!("`{interface}` has no function `{name}`"));
    let component: &Component = pre.component();
    let place = |name: &str| {
        let provider = component.get_export_index(None, interface);
        provider.and_then(|provider| component.get_export_index(Some(&provider), name))
    };
    let list = place("list-tools").ok_or_else(|| missing("list-tools"))?;
    let call = place("call-tool").ok_or_else(|| missing("call-tool"))?;
    let sessions = Sessions::of(component, exports);
    Ok(Arc::new(move |_, instance| {
        Ok(Box::new(ActGuest { instance, list, call, sessions: sessions.clone() }))
    }))
}

/// One instance, and its two functions.
struct ActGuest {
    instance: Instance,
    list: ComponentExportIndex,
    call: ComponentExportIndex,
    sessions: Option<Sessions>,
}

#[async_trait]
impl Guest for ActGuest {
    async fn list(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Result<Listed, LoadError>> {
        let list: ListTools = match self.instance.get_typed_func(&mut *store, self.list) {
            Ok(list) => list,
            Err(error) => return Ok(Err(LoadError::link(&error))),
        };
        let (listed,) = list.call_async(store, (Vec::new(),)).await?;
        Ok(match listed {
            Ok(listed) if listed.tools.is_empty() && self.sessions.is_some() => {
                Err(LoadError::Listing(BRIDGE.to_owned()))
            }
            Ok(listed) => Ok(Listed::tools(listed.tools.into_iter().map(tool_list::tool).collect())),
            Err(failure) => Err(LoadError::Listing(content::message(&failure))),
        })
    }

    async fn call(&self, store: &mut Store<GuestState>, call: &Call) -> Answer {
        let tool: CallTool = self.instance.get_typed_func(&mut *store, self.call)?;
        let arguments = cbor::encode(&call.arguments.value());
        let (session, refusal) = match &self.sessions {
            Some(sessions) => match sessions.open(&self.instance, store).await? {
                Ok(session) => (Some(session), None),
                Err(refusal) => (None, Some(refusal)),
            },
            None => (None, None),
        };
        let metadata = session.as_ref().map(Session::metadata).unwrap_or_default();
        let (answer,) = tool.call_async(&mut *store, (call.tool.clone(), arguments, metadata)).await?;
        let events = match answer {
            CallResponse::Immediate(events) => events,
            CallResponse::Streaming(stream) => stream::collect(store, stream).await?,
        };
        if let Some(session) = session {
            session.close(&self.instance, store).await?;
        }
        Ok(content::answer(events, refusal.as_deref()))
    }
}
