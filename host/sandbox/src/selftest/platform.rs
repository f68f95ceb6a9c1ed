//! The attempts that each system has.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::entry;
#[cfg(target_os = "linux")]
pub use linux::run;

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub(crate) use macos::entry;
#[cfg(target_os = "macos")]
pub use macos::run;
