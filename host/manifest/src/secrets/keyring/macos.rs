//! macOS: the generic passwords of the user's keychain. A locked keychain prompts its user.

use haft_core::lookup::HostPrograms;

use crate::KeyringEntry;
use security_framework::base::Error;
use security_framework::passwords::{delete_generic_password, get_generic_password, set_generic_password};

/// `errSecItemNotFound` of Security's `SecBase.h`.
const NOT_FOUND: i32 = -25300;

/// Reads an entry: `None` if it does not exist, an error if the keychain is not available.
pub(super) async fn read(entry: &KeyringEntry, _programs: &HostPrograms) -> Result<Option<Vec<u8>>, String> {
    let KeyringEntry { service, user } = entry.clone();
    // A locked keychain waits for the user.
    let found = tokio::task::spawn_blocking(move || get_generic_password(&service, &user)).await;
    match found.map_err(|error| error.to_string())? {
        Ok(secret) => Ok(Some(secret)),
        Err(error) if Error::code(error) == NOT_FOUND => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Stores a value as the entry, instead of what it has.
pub(super) async fn write(
    entry: &KeyringEntry,
    value: &[u8],
    _programs: &HostPrograms,
) -> Result<(), String> {
    let (KeyringEntry { service, user }, value) = (entry.clone(), value.to_vec());
    let stored = tokio::task::spawn_blocking(move || set_generic_password(&service, &user, &value)).await;
    stored.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Removes an entry, if it is there.
pub(super) async fn remove(entry: &KeyringEntry, _programs: &HostPrograms) -> Result<(), String> {
    let KeyringEntry { service, user } = entry.clone();
    let removed = tokio::task::spawn_blocking(move || delete_generic_password(&service, &user)).await;
    match removed.map_err(|error| error.to_string())? {
        Err(error) if Error::code(error) != NOT_FOUND => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Returns the command that stores an entry.
pub(super) fn how_to_store(entry: &KeyringEntry, _keyring_answers: bool) -> String {
    let KeyringEntry { service, user } = entry;
    format!("`security add-generic-password -s '{service}' -a '{user}' -w` asks for it and stores it")
}
