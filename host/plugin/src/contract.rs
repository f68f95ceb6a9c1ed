//! What a component promises, found by looking at what it exports, and calling it by that promise.
//! Knows nothing of rights: an instance is handed to it with the store that holds them.

pub(crate) mod act;
pub(crate) mod answer;
pub(crate) mod bindings;
pub(crate) mod floats;
pub(crate) mod haft_host;
pub(crate) mod haft_world;
pub(crate) mod typed;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::Component;

use super::engine::Engine;
use super::failure::LoadError;
use crate::component::listing::Untold;
use crate::contract::answer::Output;
use crate::instance::state::State;
use haft_core::tool::ToolError;

/// The contract that a component keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contract {
    /// The `haft:plugin` world: a list of tools and a call of one of them.
    Plugin,
    /// The `act:tools` world of other hosts: the same idea with other words.
    Act,
    /// None of these: each function it exports is a tool.
    Typed,
}

/// A component linked to all that it may import, with the places of its exports known.
#[derive(Clone)]
pub(super) enum Linked {
    Plugin(haft_world::Linked),
    Act(act::Linked),
    Typed(typed::Linked),
}

/// What is called in one instance.
pub(super) enum Guest {
    Plugin(haft_world::Guest),
    Act(act::Guest),
    Typed(typed::Guest),
}

/// One call, as every contract needs it.
pub(super) struct Request {
    /// Names the call among those under way.
    pub(super) id: String,
    /// The name that the component itself has for the tool.
    pub(super) tool: String,
    /// The arguments, checked against the tool's parameters.
    pub(super) arguments: Value,
}

impl Contract {
    /// The contract of a component that exports these names, or what stands in the place of one.
    pub(super) fn of(exports: &[&str]) -> Result<Self, LoadError> {
        if haft_world::is_exported(exports)? {
            return Ok(Self::Plugin);
        }
        if act::is_exported(exports)? {
            return Ok(Self::Act);
        }
        if exports.iter().all(|name| typed::is_hidden(name)) {
            return Err(LoadError::nothing(exports));
        }
        Ok(Self::Typed)
    }
}

impl std::fmt::Display for Contract {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plugin => "haft:plugin",
            Self::Act => "act:tools",
            Self::Typed => "typed functions",
        })
    }
}

impl Linked {
    /// Links a component, with the places of its exports looked up once and for all.
    pub(super) fn new(engine: &Engine, component: &Component) -> Result<Self, LoadError> {
        let exports = component.component_type();
        let names: Vec<&str> = exports.exports(component.engine()).map(|(name, _)| name).collect();
        match Contract::of(&names)? {
            Contract::Plugin => haft_world::Linked::new(engine.link(component)?).map(Self::Plugin),
            Contract::Typed => {
                let exports = typed::Exports::of(component.engine(), component);
                Ok(Self::Typed(typed::Linked::new(engine.link(component)?, exports)))
            }
            Contract::Act => act::Linked::new(engine.link(component)?, &names).map(Self::Act),
        }
    }

    /// The contract it keeps.
    pub(super) fn contract(&self) -> Contract {
        match self {
            Self::Plugin(_) => Contract::Plugin,
            Self::Act(_) => Contract::Act,
            Self::Typed(_) => Contract::Typed,
        }
    }

    /// The component that is linked.
    pub(super) fn component(&self) -> &Component {
        match self {
            Self::Plugin(linked) => linked.component(),
            Self::Act(linked) => linked.component(),
            Self::Typed(linked) => linked.component(),
        }
    }

    /// Bytes that haft keeps for each byte of a result while it reads it, beside the result itself:
    /// for typed functions wasmtime makes a value of its own of every element of a list, bytes too.
    pub(super) fn result_cost(&self) -> usize {
        match self {
            Self::Plugin(_) | Self::Act(_) => 0,
            Self::Typed(_) => size_of::<wasmtime::component::Val>(),
        }
    }

    /// Makes an instance in `store`.
    pub(super) async fn instantiate(&self, store: &mut Store<State>) -> wasmtime::Result<Guest> {
        match self {
            Self::Plugin(linked) => linked.instantiate(store).await.map(Guest::Plugin),
            Self::Act(linked) => linked.instantiate(store).await.map(Guest::Act),
            Self::Typed(linked) => linked.instantiate(store).await.map(Guest::Typed),
        }
    }
}

impl Guest {
    /// Asks for the list of tools. Typed functions are listed without being asked, so there are none.
    pub(super) async fn list(
        &self,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Result<Vec<Untold>, LoadError>> {
        match self {
            Self::Plugin(guest) => guest.list(store).await.map(Ok),
            Self::Act(guest) => guest.list(store).await,
            Self::Typed(_) => Ok(Ok(Vec::new())),
        }
    }

    /// Runs a tool to its end.
    pub(super) async fn call(
        &self,
        store: &mut Store<State>,
        request: &Request,
    ) -> wasmtime::Result<Result<Output, ToolError>> {
        match self {
            Self::Plugin(guest) => guest.call(store, request).await,
            Self::Act(guest) => guest.call(store, request).await,
            Self::Typed(guest) => guest.call(store, request).await,
        }
    }
}
