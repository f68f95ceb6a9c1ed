//! What a contract has to say: how a component that keeps it is recognised, linked, listed and called. Each contract is
//! one file with a [`Kind`] and an implementation of [`Guest`]; `linked` lists them.

use std::sync::Arc;

use async_trait::async_trait;
use wasmtime::Store;
use wasmtime::component::{Component, Instance, InstancePre};

use crate::component::listing::{Listed, Listing};
use crate::component::sections::Sections;
use crate::contract::answer::Output;
use crate::contract::{Contract, Request};
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use haft_core::call::Offers;
use haft_core::tool::ToolError;

/// A contract: what haft does with the components that keep it.
pub(crate) struct Kind {
    pub(crate) contract: Contract,
    /// Whether a component with these exports keeps the contract. Fails where it does so in an unsupported version.
    pub(crate) is_exported: fn(&[&str]) -> Result<bool, LoadError>,
    /// Resolves the exports of a linked component, once for all its guests. The listing is there once it is known.
    pub(crate) link: fn(&InstancePre<GuestState>, &[&str], Option<&Listing>) -> Result<MakeGuest, LoadError>,
    /// The tools of a component, where its types and sections, or the WIT file beside it, give them.
    pub(crate) listing: fn(&Component, &Sections, Option<&str>) -> Result<Option<Listing>, LoadError>,
    /// Whether prompts and resources may stand beside its tools.
    pub(crate) may_offer: bool,
    /// Bytes of overhead for each byte of a result while haft reads it.
    pub(crate) result_cost: usize,
}

/// Makes a guest of an instance.
pub(crate) type MakeGuest =
    Arc<dyn Fn(&mut Store<GuestState>, Instance) -> wasmtime::Result<Box<dyn Guest>> + Send + Sync>;

/// One instance of a component, as haft uses it whatever its contract is. The outer error of each function ends it.
#[async_trait]
pub(crate) trait Guest: Send + Sync {
    /// Asks for the list of tools; none where they are known without being asked.
    async fn list(&self, _: &mut Store<GuestState>) -> wasmtime::Result<Result<Listed, LoadError>> {
        Ok(Ok(Listed::tools(Vec::new())))
    }

    /// Asks for what it offers beside its tools.
    async fn offers(&self, _: &mut Store<GuestState>) -> wasmtime::Result<Offers> {
        Ok(Offers::default())
    }

    /// Runs a tool to its end.
    async fn call(
        &self,
        store: &mut Store<GuestState>,
        request: &Request,
    ) -> wasmtime::Result<Result<Output, ToolError>>;

    /// Whether it may be called again.
    fn is_reusable(&self) -> bool {
        true
    }
}

/// The listing of a component that has to be asked for its tools.
pub(crate) fn unlisted(_: &Component, _: &Sections, _: Option<&str>) -> Result<Option<Listing>, LoadError> {
    Ok(None)
}
