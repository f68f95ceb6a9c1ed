//! What each system confines and watches over a command with.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(super) use linux::{confine, is_lacking, offer_to_oom_killer, serve, wrapped};

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub(super) use macos::{confine, is_lacking, offer_to_oom_killer, serve, wrapped};

/// Only text, which every system's tests read.
#[cfg(any(test, target_os = "macos"))]
mod seatbelt;
