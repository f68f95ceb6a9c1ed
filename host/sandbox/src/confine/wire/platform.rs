//! What messages go by on each system: sockets that keep their borders, and files in memory.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{keep_from_children, memory_file, pair, receive, send};

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub(crate) use macos::{keep_from_children, memory_file, pair, receive, send};
