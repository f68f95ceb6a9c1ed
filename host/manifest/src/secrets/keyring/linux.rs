//! Linux: first the kernel's keyring, which answers at once without a prompt, then the desktop's (the Secret
//! Service of GNOME, KDE or a password manager).

mod service;

use linux_keyutils::{KeyRing, KeyRingIdentifier};

use crate::KeyringEntry;
use haft_core::lookup::HostPrograms;

/// Reads an entry: `None` if it does not exist, an error if the keyring is not available.
pub(super) async fn read(entry: &KeyringEntry, programs: &HostPrograms) -> Result<Option<Vec<u8>>, String> {
    if let Some(secret) = read_kernel(entry) {
        return Ok(Some(secret));
    }
    service::read(entry, programs).await.map_err(|error| error.to_string())
}

/// Stores a value in the desktop's keyring: the kernel's lasts until the machine is started again.
pub(super) async fn write(entry: &KeyringEntry, value: &[u8], programs: &HostPrograms) -> Result<(), String> {
    service::write(entry, value, programs).await.map_err(|error| error.to_string())
}

/// Removes an entry from the desktop's keyring, if it is there.
pub(super) async fn remove(entry: &KeyringEntry, programs: &HostPrograms) -> Result<(), String> {
    service::remove(entry, programs).await.map_err(|error| error.to_string())
}

/// Returns the command that stores an entry. Without a desktop, it uses the kernel's keyring.
pub(super) fn how_to_store(entry: &KeyringEntry, keyring_answers: bool) -> String {
    if keyring_answers {
        let KeyringEntry { service, user } = entry;
        format!("`secret-tool store --label='{entry}' service '{service}' username '{user}'` stores it")
    } else {
        format!(
            "without a desktop, `keyctl padd user '{entry}' @u` stores it until the machine restarts; or use \
             a file: `{{ file = \"PATH\" }}`"
        )
    }
}

/// Returns the value of the entry, if this process can read it.
fn read_kernel(entry: &KeyringEntry) -> Option<Vec<u8>> {
    // A service without a session does not possess the user's keyring through its session.
    let rings = [KeyRingIdentifier::Session, KeyRingIdentifier::User];
    let find = |ring| KeyRing::from_special_id(ring, false)?.search(&entry.to_string())?.read_to_vec();
    rings.into_iter().find_map(|ring| find(ring).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the kernel has keyrings for this process, an entry in them is found.
    #[test]
    fn a_key_of_the_session_is_found() {
        let entry =
            KeyringEntry { service: "haft.test/x".into(), user: format!("ada-{}", std::process::id()) };
        assert_eq!(read_kernel(&entry), None);
        let Ok(ring) = KeyRing::from_special_id(KeyRingIdentifier::User, true) else { return };
        let Ok(key) = ring.add_key(&entry.to_string(), b"sk-4711-0815") else { return };
        assert_eq!(read_kernel(&entry).as_deref(), Some(b"sk-4711-0815".as_slice()));
        key.invalidate().unwrap();
        assert_eq!(read_kernel(&entry), None);
    }
}
