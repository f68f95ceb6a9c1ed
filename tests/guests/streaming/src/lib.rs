//! A component of WASI 0.3: functions that answer in pieces, functions that use the host's interfaces, and
//! functions that attack the host.

#[allow(clippy::pedantic, unsafe_code, reason = "generated")]
mod bindings {
    use super::Streaming;

    wit_bindgen::generate!({ path: "src/streaming.wit", generate_all });
    export!(Streaming with_types_in self);
}
mod files;
mod host;
mod hostile;
mod http;
mod network;
mod pieces;

/// The component.
struct Streaming;

/// Waits for so many milliseconds.
async fn pause(milliseconds: u32) {
    bindings::wasi::clocks::monotonic_clock::wait_for(u64::from(milliseconds) * 1_000_000).await;
}
