//! The user's keyring: first the kernel's, which answers at once without a prompt, then the desktop's (the Secret
//! Service: GNOME's, KDE's, that of a password manager). Only ever read.

#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod service;

use super::SecretError;
use crate::manifest::KeyringEntry;

/// The value of an entry.
#[cfg(target_os = "linux")]
pub(super) async fn read(entry: &KeyringEntry) -> Result<Vec<u8>, SecretError> {
    if let Some(secret) = kernel::read(entry) {
        return Ok(secret);
    }
    match service::read(entry).await {
        Ok(Some(secret)) => Ok(secret),
        Ok(None) => Err(SecretError::NotInKeyring(entry.clone())),
        Err(error) => Err(SecretError::Keyring { entry: entry.clone(), why: error.to_string() }),
    }
}

/// The value of an entry.
#[cfg(not(target_os = "linux"))]
pub(super) async fn read(entry: &KeyringEntry) -> Result<Vec<u8>, SecretError> {
    let why = "haft knows only the keyrings of Linux".to_owned();
    Err(SecretError::Keyring { entry: entry.clone(), why })
}
