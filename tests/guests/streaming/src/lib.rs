//! A component of WASI 0.3: functions that answer piece by piece, what a guest may have of its host, and what it must not
//! get away with.

#![allow(clippy::used_underscore_items, reason = "what is generated calls itself that way")]
#![allow(async_fn_in_trait, reason = "what is generated has such traits")]

#[allow(
    clippy::allow_attributes_without_reason,
    clippy::panic,
    clippy::pedantic,
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unused_qualifications,
    reason = "generated"
)]
mod bindings;
mod files;
mod host;
mod hostile;
mod http;
mod network;
mod pieces;

/// The component.
struct Streaming;

/// What the component exports.
#[allow(clippy::allow_attributes_without_reason, unsafe_code, reason = "generated")]
mod exported {
    use super::{Streaming, bindings};

    bindings::export!(Streaming with_types_in bindings);
}

/// Waits for so many milliseconds.
async fn pause(milliseconds: u32) {
    bindings::wasi::clocks::monotonic_clock::wait_for(u64::from(milliseconds) * 1_000_000).await;
}
