//! The interface of a contract: how a component that follows it is recognised, linked, listed and called. Each
//! contract is one file with a [`Kind`] and an implementation of [`Guest`]; `linked` lists them.

use std::sync::Arc;

use async_trait::async_trait;
use wasmtime::Store;
use wasmtime::component::{Component, Instance, InstancePre};

use crate::call::Call;
use crate::component::listing::{Listed, Listing};
use crate::component::sections::Sections;
use crate::contract::Contract;
use crate::contract::answer::Output;
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use haft_core::call::Offers;
use haft_core::tool::ToolError;

/// A contract: haft's functions for the components that follow it.
pub(crate) struct Kind {
    pub(crate) contract: Contract,
    /// Returns whether a component with these exports follows the contract. Fails for an unsupported version.
    pub(crate) is_exported: fn(&[&str]) -> Result<bool, LoadError>,
    /// Resolves the exports of a linked component, once for all its guests.
    pub(crate) link: fn(&Linked<'_>) -> Result<MakeGuest, LoadError>,
    /// Returns the tools of a component without running it, if its types and sections, or the WIT file beside it,
    /// define them.
    pub(crate) listing: Option<ListingOf>,
    /// Whether the component may have prompts and resources besides its tools.
    pub(crate) may_offer: bool,
    /// Bytes of overhead for each byte of a result while haft reads it.
    pub(crate) result_cost: usize,
}

/// A component whose imports are linked.
pub(crate) struct Linked<'a> {
    pub(crate) pre: &'a InstancePre<GuestState>,
    pub(crate) exports: &'a [&'a str],
    /// The result of listing its tools.
    pub(crate) listing: Option<&'a Listing>,
}

/// The result of a call; the outer error ended the guest.
pub(crate) type Answer = wasmtime::Result<Result<Output, ToolError>>;

/// Reads the tools of a component.
pub(crate) type ListingOf = fn(&Component, &Sections, Option<&str>) -> Result<Listing, LoadError>;

pub(crate) type MakeGuest =
    Arc<dyn Fn(&mut Store<GuestState>, Instance) -> wasmtime::Result<Box<dyn Guest>> + Send + Sync>;

/// An instance of a component with any contract. The outer error of each function ends the instance.
#[async_trait]
pub(crate) trait Guest: Send + Sync {
    /// Requests the list of tools; empty if they are known without an instance.
    async fn list(&self, _: &mut Store<GuestState>) -> wasmtime::Result<Result<Listed, LoadError>> {
        Ok(Ok(Listed::tools(Vec::new())))
    }

    /// Requests the prompts and resources.
    async fn offers(&self, _: &mut Store<GuestState>) -> wasmtime::Result<Offers> {
        Ok(Offers::default())
    }

    /// Runs a tool to its end.
    async fn call(&self, store: &mut Store<GuestState>, call: &Call) -> Answer;

    /// Returns whether the instance may be called again.
    fn is_reusable(&self) -> bool {
        true
    }
}
