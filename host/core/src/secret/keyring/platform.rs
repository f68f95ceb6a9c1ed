//! Each system's keyring: what an entry holds (`None` where there is no such entry, an error where the keyring does
//! not tell), and what a person types to store one.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(in crate::secret) use linux::{how_to_store, read};

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub(in crate::secret) use macos::{how_to_store, read};
