//! A component linked to all of its permitted imports, and the list of contracts. Knows nothing of rights: a guest
//! is given the store that holds them.

use wasmtime::Store;
use wasmtime::component::{Component, InstancePre};

use crate::component::listing::Listing;
use crate::contract::guest::{Guest, Kind, Linked, MakeGuest};
use crate::contract::offers::{self, Offering};
use crate::contract::{act, command, haft_world, mcp, typed};
use crate::engine::Engine;
use crate::failure::LoadError;
use crate::instance::state::GuestState;

/// Every contract. A component has the first matching one: typed functions precede a server and a command, which
/// have no other exports, and a server precedes a command, because server toolchains export an empty `main`.
const KINDS: [&Kind; 6] =
    [&haft_world::KIND, &act::KIND, &typed::HOOK, &typed::KIND, &mcp::KIND, &command::KIND];

/// A component linked to everything it may import, with its exports resolved.
#[derive(Clone)]
pub(crate) struct LinkedComponent {
    pub(crate) kind: &'static Kind,
    linked: InstancePre<GuestState>,
    make: MakeGuest,
    /// Whether the component has prompts or resources.
    pub(crate) has_offers: bool,
}

/// Returns the contract of a component that exports these names.
/// Errors: A known contract in a version that is not supported, or nothing that could be called.
pub(crate) fn kind(exports: &[&str]) -> Result<&'static Kind, LoadError> {
    for kind in KINDS {
        if (kind.is_exported)(exports)? {
            return Ok(kind);
        }
    }
    Err(LoadError::nothing(exports))
}

impl LinkedComponent {
    /// Links a component and resolves its exports, once for all guests. `listing`: the result of listing its tools.
    /// Errors: A missing import, or exports that fit no contract.
    pub(crate) fn new(
        engine: &Engine,
        component: &Component,
        listing: Option<&Listing>,
    ) -> Result<Self, LoadError> {
        let exports = component.component_type();
        let names: Vec<&str> = exports.exports(component.engine()).map(|(name, _)| name).collect();
        let has_offers = offers::is_exported(&names)?;
        let kind = kind(&names)?;
        if has_offers && !kind.may_offer {
            let contract = kind.contract;
            return Err(LoadError::Offer(format!(
                "`haft:plugin/offers` needs tools of `haft:plugin` or typed functions; this component uses \
                 {contract}"
            )));
        }
        let linked = engine.link(component)?;
        let make = (kind.link)(&Linked { pre: &linked, exports: &names, listing })?;
        Ok(Self { kind, linked, make, has_offers })
    }

    pub(crate) fn component(&self) -> &Component {
        self.linked.component()
    }

    pub(crate) async fn instantiate(
        &self,
        store: &mut Store<GuestState>,
    ) -> wasmtime::Result<Box<dyn Guest>> {
        let instance = self.linked.instantiate_async(&mut *store).await?;
        let guest = (self.make)(store, instance)?;
        Ok(if self.has_offers { Box::new(Offering::new(guest, instance)) } else { guest })
    }
}
