//! Components of WASI 0.3: asynchronous functions, streams and futures, under the grants, sandbox and limits of all
//! components.

mod answers;
mod hostile;
mod mcp;
mod rights;

use std::path::PathBuf;

use haft::event::Event;
use haft::grant::Grant;
use haft::limit::Limits;

use crate::common::repository;
use crate::guest::Guest;

pub(crate) fn component() -> PathBuf {
    repository().join("tests/guests/built/streaming.wasm")
}

async fn guest(grant: Grant) -> Guest {
    within(grant, Limits::default()).await
}

async fn within(grant: Grant, limits: Limits) -> Guest {
    Guest::of(&component(), grant, limits).await
}

/// The parts of answers so far.
fn pieces(guest: &Guest) -> Vec<String> {
    let piece = |event| match event {
        Event::Partial { text, .. } => Some(text),
        _ => None,
    };
    guest.received().into_iter().filter_map(piece).collect()
}
