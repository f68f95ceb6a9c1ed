//! Linux: first the kernel's keyring, which answers at once without a prompt, then the desktop's (the Secret
//! Service of GNOME, KDE or a password manager).

mod kernel;
mod service;

use haft_core::lookup::HostPrograms;

use crate::KeyringEntry;

/// Reads an entry: `None` if it does not exist, an error if the keyring is not available.
pub(super) async fn read(entry: &KeyringEntry, programs: &HostPrograms) -> Result<Option<Vec<u8>>, String> {
    if let Some(secret) = kernel::read(entry) {
        return Ok(Some(secret));
    }
    service::read(entry, programs).await.map_err(|error| error.to_string())
}

/// Returns the command that stores an entry. Without a desktop, it uses the kernel's keyring.
pub(super) fn how_to_store(entry: &KeyringEntry, keyring_answers: bool) -> String {
    if keyring_answers {
        let KeyringEntry { service, user } = entry;
        format!("`secret-tool store --label='{entry}' service '{service}' username '{user}'` stores it")
    } else {
        format!(
            "where there is no desktop, `keyctl padd user '{entry}' @u` stores it until the machine \
             is started again, and `{{ file = \"PATH\" }}` names a file"
        )
    }
}
