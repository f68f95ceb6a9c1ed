//! What each system has to resolve a path to a handle, and to open what the handle is of.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(in crate::wasi::files) use linux::{
    HANDLE, find, holds_processes, identity, kernel_path, reopen, set_times,
};

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub(in crate::wasi::files) use macos::{
    HANDLE, find, holds_processes, identity, kernel_path, reopen, set_times,
};
