//! The interface of a contract: how a component that follows it is recognised, linked, listed and called. Each
//! contract is one file with a [`Kind`] and an implementation of [`Guest`]; `linked` lists them. A guest's answer becomes
//! a tool result within the result limit, checked against the tool's output schema; its content is passed on unchanged.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::{Component, Instance, InstancePre};

use crate::call::Call;
use crate::component::listing::{Listed, Listing};
use crate::component::sections::Sections;
use crate::contract::Contract;
use crate::failure::{End, LoadError, bytes};
use crate::instance::state::GuestState;
use haft_core::call::{Attachment, Offers, ToolResult};
use haft_core::limit::Limits;
use haft_core::tool::{Schema, ToolError};

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
    pub(crate) listing: Option<&'a Listing>,
}

/// The result of a call; the outer error ended the guest.
pub(crate) type Answer = wasmtime::Result<Result<Output, ToolError>>;

pub(crate) type ListingOf = fn(&Component, &Sections, Option<&str>) -> Result<Listing, LoadError>;

pub(crate) type MakeGuest =
    Arc<dyn Fn(&mut Store<GuestState>, Instance) -> wasmtime::Result<Box<dyn Guest>> + Send + Sync>;

/// Returns whether a version of an interface, which `prefix` names up to the rest of its version, is exported.
pub(crate) fn is_among(exports: &[&str], prefix: &str) -> bool {
    exports.iter().any(|name| name.starts_with(prefix))
}

/// Returns whether an interface, which `prefix` names up to its version, is among `exports` in a supported
/// version. An unsupported version alone is an error.
pub(crate) fn exported_version(
    exports: &[&str],
    prefix: &str,
    world: &'static str,
    supported: &'static str,
    is_spoken: fn(&str) -> bool,
) -> Result<bool, LoadError> {
    let versions = || exports.iter().filter_map(|name| name.strip_prefix(prefix));
    if versions().any(is_spoken) {
        return Ok(true);
    }
    let other =
        versions().next().map(|found| LoadError::WrongVersion { world, found: found.to_owned(), supported });
    other.map_or(Ok(false), Err)
}

/// An instance of a component with any contract. The outer error of each function ends the instance.
#[async_trait]
pub(crate) trait Guest: Send + Sync {
    /// Requests the list of tools; empty if they are known without an instance.
    async fn list(&self, _: &mut Store<GuestState>) -> wasmtime::Result<Result<Listed, LoadError>> {
        Ok(Ok(Listed::tools(Vec::new())))
    }

    async fn offers(&self, _: &mut Store<GuestState>) -> wasmtime::Result<Offers> {
        Ok(Offers::default())
    }

    async fn call(&self, store: &mut Store<GuestState>, call: &Call) -> Answer;

    fn is_reusable(&self) -> bool {
        true
    }
}

/// A guest's answer, independent of its contract.
pub(crate) struct Output {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) structured: Option<Structured>,
}

impl Output {
    pub(crate) fn text(text: String) -> Self {
        Self { pieces: vec![Piece::Text(text)], structured: None }
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Binary(_) => None,
        })
    }
}

pub(crate) enum Piece {
    Text(String),
    Binary(Attachment),
}

/// An answer as data.
pub(crate) enum Structured {
    /// JSON text, as the guest wrote it.
    Text(String),
    /// A value that haft decoded; the model gets it as text.
    Value(Value),
}

/// Returns the tool result of an answer. Its data must fit `schema`, if given.
/// Errors: The answer is longer than the limit, or its data is malformed or does not fit.
pub(crate) fn to_tool_result(
    output: Output,
    schema: Option<&Schema>,
    limits: &Limits,
) -> Result<ToolResult, End> {
    let structured_size = match &output.structured {
        Some(Structured::Text(text)) => text.len(),
        _ => 0,
    };
    let structured = match output.structured {
        Some(Structured::Text(text)) => Some(parse_object(&text, schema)?),
        Some(Structured::Value(value)) => Some(value),
        None => None,
    };
    let mut result = ToolResult { structured, ..ToolResult::default() };
    let mut texts = Vec::new();
    for piece in output.pieces {
        match piece {
            Piece::Text(text) => texts.push(text),
            Piece::Binary(attachment) => {
                texts.push(attachment.mention());
                result.attachments.push(attachment);
            }
        }
    }
    // A single text, the usual case, is not copied: it may have many megabytes.
    result.content = if texts.len() == 1 { texts.remove(0) } else { texts.join("\n") };
    let attached = |attachment: &Attachment| attachment.media_type.len() + attachment.data.len();
    let size =
        result.content.len() + structured_size + result.attachments.iter().map(attached).sum::<usize>();
    if size as u64 > limits.result {
        let (shown, limit) = (bytes(size as u64), bytes(limits.result));
        let line = format!("returned {shown}, more than its result limit of {limit}");
        return Err(End::too_long(line, size as u64));
    }
    Ok(result)
}

fn parse_object(text: &str, schema: Option<&Schema>) -> Result<Value, End> {
    let wrong = |what: String| End::new(format!("returned structured content that {what}"));
    let value =
        haft_core::json::read(text.as_bytes()).map_err(|error| wrong(format!("is not JSON: {error}")))?;
    if !value.is_object() {
        return Err(wrong("is not a JSON object".into()));
    }
    schema
        .map_or(Ok(()), |schema| schema.check(&value))
        .map_err(|error| wrong(format!("does not fit its output schema: {error}")))?;
    Ok(value)
}
