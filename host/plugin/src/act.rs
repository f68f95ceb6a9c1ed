//! Components of the `act:tools` world of other hosts: tools listed by the component, arguments in
//! CBOR, answers in parts, all at once or one by one.
//!
//! Such a component may offer *sessions* (`act:sessions`), which it keeps from call to call. A plugin
//! of haft's keeps nothing, so none is ever opened: what needs one says so, and haft adds why.

mod about;
mod cbor;
mod parts;
mod shapes;
mod stream;
mod text;
mod told;

use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, Instance, InstancePre};

pub use self::about::{About, Asked};
use self::shapes::{Answer, CallTool, ListTools};
use super::answer::Output;
use super::contract::Request;
use super::failure::LoadError;
use super::listing::Untold;
use super::state::State;
use super::world::exported_version;
use haft_core::tool::ToolError;

/// The interface that makes a component one of this world; its version follows.
const INTERFACE: &str = "act:tools/tool-provider@";

/// The versions that are spoken here, for people.
const SUPPORTED: &str = "0.1";

/// Whether a version is one of [`SUPPORTED`]: within 0.1 nothing changes its shape.
fn is_spoken(version: &str) -> bool {
    version.starts_with("0.1.")
}

/// Whether the world is among `exports`, of whatever else there may be; another version of it is
/// an error.
pub(super) fn is_exported(exports: &[&str]) -> Result<bool, LoadError> {
    exported_version(exports, INTERFACE, "act:tools", SUPPORTED, is_spoken)
}

/// A component of the world, with the places of its two functions.
#[derive(Clone)]
pub(super) struct Linked {
    component: InstancePre<State>,
    list: ComponentExportIndex,
    call: ComponentExportIndex,
}

/// One instance of it.
pub(super) struct Guest {
    instance: Instance,
    list: ComponentExportIndex,
    call: ComponentExportIndex,
}

impl Linked {
    /// A linked component that exports the world under one of these names.
    pub(super) fn new(linked: InstancePre<State>, exports: &[&str]) -> Result<Self, LoadError> {
        let is_provider = |name: &&&str| name.strip_prefix(INTERFACE).is_some_and(is_spoken);
        let interface = exports.iter().find(is_provider).copied().unwrap_or(INTERFACE);
        let missing = |name: &str| LoadError::Link(format!("`{interface}` has no function `{name}`"));
        let component: &Component = linked.component();
        let place = |name: &str| {
            let provider = component.get_export_index(None, interface);
            provider.and_then(|provider| component.get_export_index(Some(&provider), name))
        };
        let list = place("list-tools").ok_or_else(|| missing("list-tools"))?;
        let call = place("call-tool").ok_or_else(|| missing("call-tool"))?;
        Ok(Self { component: linked, list, call })
    }

    pub(super) fn component(&self) -> &Component {
        self.component.component()
    }

    pub(super) async fn instantiate(&self, store: &mut Store<State>) -> wasmtime::Result<Guest> {
        let instance = self.component.instantiate_async(&mut *store).await?;
        Ok(Guest { instance, list: self.list, call: self.call })
    }
}

impl Guest {
    /// Asks for the tools.
    pub(super) async fn list(
        &self,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Result<Vec<Untold>, LoadError>> {
        let list: ListTools = match self.instance.get_typed_func(&mut *store, self.list) {
            Ok(list) => list,
            Err(error) => return Ok(Err(LoadError::link(&error))),
        };
        let (listed,) = list.call_async(store, (Vec::new(),)).await?;
        Ok(match listed {
            Ok(listed) => Ok(listed.tools.into_iter().map(told::tool).collect()),
            Err(failure) => Err(LoadError::Listing(parts::message(&failure))),
        })
    }

    /// Runs a tool to its end.
    pub(super) async fn call(
        &self,
        store: &mut Store<State>,
        request: &Request,
    ) -> wasmtime::Result<Result<Output, ToolError>> {
        let call: CallTool = self.instance.get_typed_func(&mut *store, self.call)?;
        let arguments = cbor::encode(&request.arguments);
        let (answer,) = call.call_async(&mut *store, (request.tool.clone(), arguments, Vec::new())).await?;
        let events = match answer {
            Answer::Immediate(events) => events,
            Answer::Streaming(stream) => stream::collect(store, stream).await?,
        };
        Ok(parts::answer(events))
    }
}
