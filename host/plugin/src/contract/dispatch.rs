//! Finding the contract of a component by its exports, and linking, instantiating and calling it by that contract.
//! Knows nothing of rights: an instance is given the store that holds them.

use wasmtime::Store;
use wasmtime::component::{Component, Instance};

use crate::component::listing::{Listed, Listing};
use crate::contract::answer::Output;
use crate::contract::{Contract, Request, act, command, haft_world, mcp, offers, typed};
use crate::engine::Engine;
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use haft_core::call::Offers;
use haft_core::tool::ToolError;

/// A component linked to everything it may import, with its exports resolved.
#[derive(Clone)]
pub(crate) enum LinkedComponent {
    Plugin(haft_world::HaftComponent),
    Act(act::ActComponent),
    Mcp(mcp::McpComponent),
    Command(command::CommandComponent),
    /// Functions of any types, and which of the two contracts they are of.
    Typed(typed::TypedComponent, Contract),
}

/// One instance, by its contract.
pub(crate) enum GuestInstance {
    Plugin(haft_world::HaftGuest),
    Act(act::ActGuest),
    Mcp(mcp::McpGuest),
    Command(command::CommandGuest),
    Typed(typed::TypedGuest),
}

/// The contract of a component that exports these names.
///
/// # Errors
/// A known contract in a version that is not supported, or nothing that could be called.
pub(crate) fn detect_contract(exports: &[&str]) -> Result<Contract, LoadError> {
    if haft_world::is_exported(exports)? {
        return Ok(Contract::Plugin);
    }
    if act::is_exported(exports)? {
        return Ok(Contract::Act);
    }
    if haft_world::is_hook_exported(exports)? {
        return Ok(Contract::Hook);
    }
    if exports.iter().all(|name| typed::is_hidden(name)) {
        // Toolchains of servers export a `main` beside them, which does nothing.
        if mcp::is_exported(exports) {
            return Ok(Contract::Mcp);
        }
        if command::is_exported(exports) {
            return Ok(Contract::Command);
        }
        return Err(LoadError::nothing(exports));
    }
    Ok(Contract::Typed)
}

impl LinkedComponent {
    /// Links a component and resolves its exports, once for all instances.
    ///
    /// # Errors
    /// A missing import, or exports that fit no contract.
    pub(crate) fn new(engine: &Engine, component: &Component) -> Result<Self, LoadError> {
        let exports = component.component_type();
        let names: Vec<&str> = exports.exports(component.engine()).map(|(name, _)| name).collect();
        let has_offers = offers::is_exported(&names)?;
        match detect_contract(&names)? {
            Contract::Plugin => {
                haft_world::HaftComponent::new(engine.link(component)?, has_offers).map(Self::Plugin)
            }
            contract @ (Contract::Typed | Contract::Hook) => {
                let exports = typed::Exports::from_component(component.engine(), component);
                let typed = typed::TypedComponent::new(engine.link(component)?, exports, has_offers);
                Ok(Self::Typed(typed, contract))
            }
            contract if has_offers => Err(LoadError::Offer(format!(
                "`haft:plugin/offers` stands beside tools of `haft:plugin` or typed functions, and this component is one of {contract}"
            ))),
            Contract::Act => act::ActComponent::new(engine.link(component)?, &names).map(Self::Act),
            Contract::Mcp => mcp::McpComponent::new(engine.link(component)?, &names).map(Self::Mcp),
            Contract::Command => {
                command::CommandComponent::new(engine.link(component)?, &names).map(Self::Command)
            }
        }
    }

    /// The same, which knows what was found out when its tools were listed.
    #[must_use]
    pub(crate) fn listed_as(self, listing: &Listing) -> Self {
        if let (Self::Mcp(linked), Some(manner)) = (&self, &listing.manner) {
            linked.note(manner);
        }
        self
    }

    /// The contract it keeps.
    pub(crate) fn contract(&self) -> Contract {
        match self {
            Self::Plugin(_) => Contract::Plugin,
            Self::Act(_) => Contract::Act,
            Self::Mcp(_) => Contract::Mcp,
            Self::Command(_) => Contract::Command,
            Self::Typed(_, contract) => *contract,
        }
    }

    /// The component that is linked.
    pub(crate) fn component(&self) -> &Component {
        match self {
            Self::Plugin(linked) => linked.component(),
            Self::Act(linked) => linked.component(),
            Self::Mcp(linked) => linked.component(),
            Self::Command(linked) => linked.component(),
            Self::Typed(linked, _) => linked.component(),
        }
    }

    /// Bytes of overhead for each byte of a result while haft reads it: for typed functions wasmtime makes a `Val` of
    /// every element of a list, bytes included.
    pub(crate) fn result_cost(&self) -> usize {
        match self {
            Self::Plugin(_) | Self::Act(_) | Self::Mcp(_) | Self::Command(_) => 0,
            Self::Typed(..) => size_of::<wasmtime::component::Val>(),
        }
    }

    /// Whether it offers prompts or resources.
    pub(crate) fn has_offers(&self) -> bool {
        match self {
            Self::Plugin(linked) => linked.has_offers(),
            Self::Typed(linked, _) => linked.has_offers(),
            Self::Act(_) | Self::Mcp(_) | Self::Command(_) => false,
        }
    }

    /// Makes an instance in `store`.
    pub(crate) async fn instantiate(&self, store: &mut Store<GuestState>) -> wasmtime::Result<GuestInstance> {
        match self {
            Self::Plugin(linked) => linked.instantiate(store).await.map(GuestInstance::Plugin),
            Self::Act(linked) => Box::pin(linked.instantiate(store)).await.map(GuestInstance::Act),
            Self::Mcp(linked) => Box::pin(linked.instantiate(store)).await.map(GuestInstance::Mcp),
            Self::Command(linked) => Box::pin(linked.instantiate(store)).await.map(GuestInstance::Command),
            Self::Typed(linked, _) => Box::pin(linked.instantiate(store)).await.map(GuestInstance::Typed),
        }
    }
}

impl GuestInstance {
    /// Asks for the list of tools. Typed functions and commands are listed without being asked, so there are none.
    pub(crate) async fn list(
        &self,
        store: &mut Store<GuestState>,
    ) -> wasmtime::Result<Result<Listed, LoadError>> {
        match self {
            Self::Plugin(guest) => guest.list(store).await.map(|tools| Ok(Listed::tools(tools))),
            Self::Act(guest) => Ok(guest.list(store).await?.map(Listed::tools)),
            Self::Mcp(guest) => guest.list(store).await,
            Self::Typed(_) | Self::Command(_) => Ok(Ok(Listed::tools(Vec::new()))),
        }
    }

    /// Asks for what it offers beside its tools.
    pub(crate) async fn offers(&self, store: &mut Store<GuestState>) -> wasmtime::Result<Offers> {
        match self.offering() {
            Some(instance) => offers::list(store, instance).await,
            None => Ok(Offers::default()),
        }
    }

    /// The instance, where it offers something.
    fn offering(&self) -> Option<Instance> {
        match self {
            Self::Plugin(guest) => guest.offering(),
            Self::Typed(guest) => guest.offering(),
            Self::Act(_) | Self::Mcp(_) | Self::Command(_) => None,
        }
    }

    /// Whether it may be called again: not a program, which has run to its end, nor a server that is still at work.
    pub(crate) fn is_reusable(&self) -> bool {
        match self {
            Self::Plugin(_) | Self::Act(_) | Self::Typed(_) => true,
            Self::Mcp(guest) => guest.is_reusable(),
            Self::Command(_) => false,
        }
    }

    /// Runs a tool to its end.
    pub(crate) async fn call(
        &self,
        store: &mut Store<GuestState>,
        request: &Request,
    ) -> wasmtime::Result<Result<Output, ToolError>> {
        if let Some(instance) = self.offering().filter(|_| offers::is_meant(request)) {
            return Box::pin(offers::call(store, instance, request)).await;
        }
        match self {
            Self::Plugin(guest) => guest.call(store, request).await,
            // On the heap: the future of every call of a plugin would have room for the largest of them.
            Self::Act(guest) => Box::pin(guest.call(store, request)).await,
            Self::Mcp(guest) => Box::pin(guest.call(store, request)).await,
            Self::Command(guest) => Box::pin(guest.call(store, request)).await,
            Self::Typed(guest) => Box::pin(guest.call(store, request)).await,
        }
    }
}
